// A model in Node, on the CPU.
//
//   npm install path/to/web-demo/pkg
//   node main.mjs models/dla-tiny "In the beginning"
import { Dla } from "dla-web";

const [folder, prompt] = process.argv.slice(2);
const dla = await Dla.load(folder); // a path, a file: or http: URL, or { config, weights }
const session = await dla.session();
await session.feed(prompt);
process.stdout.write(prompt);
for await (const { text } of session.generate({ maxTokens: 48, temperature: 0 })) process.stdout.write(text);
console.log();
