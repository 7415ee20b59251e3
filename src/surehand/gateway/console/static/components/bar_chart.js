// Horizontal bars, drawn as SVG; each is a row of a table, so that it can be read without seeing it.
import { html } from "../html.js";

const WIDTH = 100;

/** `rows` are `{name, value, part?, text?}`: `part` is drawn darker within the bar of `value`. */
export function BarChart({ rows, label, format, tone = "accent", empty = "Nothing yet." }) {
  if (!rows.length) return html`<p class="hint">${empty}</p>`;
  const most = Math.max(...rows.map((each) => each.value), Number.MIN_VALUE);
  return html`<table class="bar-chart" aria-label=${label}><tbody>
    ${rows.map((row) => html`<tr>
      <th scope="row" title=${row.name}>${row.name}</th>
      <td class="bar-cell"><svg viewBox=${`0 0 ${WIDTH} 10`} preserveAspectRatio="none" aria-hidden="true">
        <rect class="track" x="0" y="0" width=${WIDTH} height="10" />
        <rect class=${`${tone} ${row.part === undefined ? "" : "light"}`} x="0" y="0" height="10" width=${(row.value / most) * WIDTH} />
        ${row.part !== undefined && html`<rect class=${tone} x="0" y="0" height="10" width=${(row.part / most) * WIDTH} />`}
      </svg></td>
      <td class="number">${row.text ?? (row.part === undefined ? format(row.value) : `${format(row.part)} · ${format(row.value)}`)}</td>
    </tr>`)}
  </tbody></table>`;
}
