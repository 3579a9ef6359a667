// A needle's answer, byte by byte: what it costs a memory of several states and one of a single state.

const BITS = 8;

/** Draws two rows of bars over the answer. */
export function drawComparison(box, answer, [several, single], { twin, trained }) {
    const rows = [["Dynamic states", several, "var(--i0)"], [twin ? "Trained with one state" : "The same weights, one state", single, "var(--i1)"]];
    const table = document.createElement("table");
    table.className = "needle";
    const head = [...answer].map(letter => `<th scope="col">${letter}</th>`).join("");
    table.innerHTML = `<thead><tr><td></td>${head}<th scope="col">sum</th></tr></thead>`;
    const body = table.createTBody();
    for (const [name, bits, ink] of rows) {
        const row = body.insertRow();
        row.innerHTML = `<th scope="row">${name}</th>`;
        for (const value of bits) row.append(cell(value, ink));
        const sum = row.insertCell();
        sum.className = "sum";
        sum.textContent = bits.reduce((total, value) => total + value, 0).toFixed(1);
    }
    const note = document.createElement("p");
    note.className = "faint small";
    note.textContent = trained
        ? `A byte that cannot be foreseen among ten digits costs 3.3 bits. ${twin ? "" : "The second row's weights were trained for several states."}`
        : "This model is untrained, so no byte is foreseen: 8 bits is a guess among 256.";
    box.replaceChildren(table, note);
}

function cell(value, ink) {
    const td = document.createElement("td");
    const bar = td.appendChild(document.createElement("span"));
    bar.style.cssText = `height:${Math.min(100, (100 * value) / BITS)}%;background:${ink}`;
    td.append(value.toFixed(1));
    return td;
}
