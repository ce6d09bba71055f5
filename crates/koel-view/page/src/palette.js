// Colours that the colour-blind can tell apart: M. Okabe and K. Ito 2008. By cloud, by label: unknown, intersection, inside, outside.
// A has the lighter of two colours alike.
export const COLOURS = [
  ["#949494", "#f0e442", "#56b4e9", "#e69f00"],
  ["#757575", "#cbbf1c", "#1f86c6", "#d55e00"],
];
export const BACKGROUND = "#12151a";
