// A needle's answer: what two models say, and what each of its bytes costs them.

const BITS = 8;

/** Draws a row for each of two `readings`: `said`, and `bits` by byte of the answer. */
export function drawComparison(box, answer, readings, { twin, trained }) {
    const names = ["Dynamic states", twin ? "Its twin, trained with one state" : "The same weights, one state"];
    const table = document.createElement("table");
    table.className = "needle";
    table.tabIndex = -1;
    const head = [...answer].map(letter => `<th scope="col">${letter}</th>`).join("");
    table.innerHTML = `<thead><tr><td></td>${head}<th scope="col">sum</th></tr></thead>`;
    const body = table.createTBody();
    readings.forEach(({ said, bits }, i) => {
        const row = body.insertRow(), ink = `var(--i${i})`;
        row.innerHTML = `<th scope="row"><b>${names[i]}</b><span class="verdict"></span></th>`;
        const found = said === answer, verdict = row.querySelector(".verdict");
        verdict.textContent = found ? `says ${shown(said)}: found` : `says ${shown(said)}: wrong`;
        verdict.classList.toggle("wrong", !found);
        for (const value of bits) row.append(cell(value, ink));
        const sum = row.insertCell();
        sum.className = "sum";
        sum.textContent = bits.reduce((total, value) => total + value, 0).toFixed(1);
    });
    const note = document.createElement("p");
    note.className = "faint small";
    note.textContent = trained ? told(readings.map(({ said }) => said === answer), twin) : "This model is untrained, so no byte is foreseen: 8 bits is a guess among 256.";
    const focused = box.contains(document.activeElement);
    box.replaceChildren(table, note);
    if (focused) table.focus({ preventScroll: true });
}

const shown = said => `“${said.replace(/\s/g, "␣")}”`;

/** What came of it, in words. */
function told([several, single], twin) {
    const scale = "Each column is the bits that one digit costs; 3.3 is a guess among ten.";
    if (!twin) return `${scale} The second row's weights were trained for several states.`;
    if (several && single) return `${scale} Both find it: at this size many states bring nothing measurable over one, as models/README.md tells.`;
    if (several !== single) return `${scale} One text is no measure: over many, both find single needles alike (models/README.md).`;
    return `${scale} Neither finds it: both were trained too little to tell needles apart.`;
}

function cell(value, ink) {
    const td = document.createElement("td");
    const bar = td.appendChild(document.createElement("span"));
    bar.style.cssText = `height:${Math.min(100, (100 * value) / BITS)}%;background:${ink}`;
    td.append(value.toFixed(1));
    return td;
}
