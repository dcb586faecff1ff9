// Light, dark, or as the system has it; kept for the next visit.

const KEY = "lambent-theme";
const THEMES = ["system", "light", "dark"];
export const themeNames = { system: "Auto", light: "Light", dark: "Dark" };

export function readTheme() {
  const kept = localStorage.getItem(KEY);
  const theme = THEMES.includes(kept) ? kept : "system";
  document.documentElement.dataset.theme = theme;
  return theme;
}

export function nextTheme() {
  localStorage.setItem(KEY, THEMES[(THEMES.indexOf(readTheme()) + 1) % THEMES.length]);
  readTheme();
}
