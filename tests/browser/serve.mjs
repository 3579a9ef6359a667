// A folder over HTTP on this machine.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json', '.wasm': 'application/wasm', '.svg': 'image/svg+xml' };

/** Serves `folder`; `special(url, response)` may answer first. Gives the server and its address. */
export function serve(folder, special = () => false) {
    const server = createServer(async (request, response) => {
        const path = normalize(decodeURIComponent(new URL(request.url, 'http://localhost').pathname));
        if (special(path, response)) return;
        const name = path.endsWith('/') ? `${path}index.html` : path;
        try {
            const body = await readFile(join(folder, name));
            response.setHeader('content-type', TYPES[extname(name)] ?? 'application/octet-stream').end(body);
        } catch {
            response.writeHead(404).end();
        }
    });
    return new Promise(resolve => server.listen(0, '127.0.0.1', () => {
        resolve({ server, address: `http://127.0.0.1:${server.address().port}` });
    }));
}
