// The body of a function: names every text whose contrast with what lies behind it is below WCAG AA.
const channel = (value) => { const part = value / 255; return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; };
const light = ([red, green, blue]) => 0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
const read = (text) => { const numbers = text.match(/[\d.]+/g).map(Number); return { rgb: numbers.slice(0, 3), alpha: numbers[3] ?? 1 }; };
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const behind = read(getComputedStyle(at).backgroundColor);
    if (behind.alpha === 1) return behind.rgb;
  }
  return [255, 255, 255];
};
const faint = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || element.closest("option, script, svg") || !element.checkVisibility()) continue;
  const style = getComputedStyle(element);
  const [one, two] = [light(read(style.color).rgb), light(ground(element))].sort((a, b) => b - a);
  const ratio = (one + 0.05) / (two + 0.05);
  const size = parseFloat(style.fontSize);
  const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
  if (ratio < needed) faint.push(`${ratio.toFixed(2)} ${style.color}: ${walker.currentNode.data.trim().slice(0, 60)}`);
}
return faint.join("\n");
