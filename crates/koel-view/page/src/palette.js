// Colour-blind-safe colours (M. Okabe and K. Ito 2008), by cloud and label: unknown, intersection,
// inside, outside. Of two similar colours, A has the lighter one.
export const COLOURS = [
  ["#949494", "#f0e442", "#56b4e9", "#e69f00"],
  ["#757575", "#cbbf1c", "#1f86c6", "#d55e00"],
];
export const BACKGROUND = "#12151a";
