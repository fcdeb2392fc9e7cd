// Icons as strokes on a field of 16 by 16.
const paths = {
  overview: 'M2.5 9.5 8 4l5.5 5.5M4 8.5V13h8V8.5M6.8 13v-3h2.4v3',
  disk: 'M3 3h10v10H3zM5.5 10.5h2M8 5a2 2 0 1 0 .01 0',
  pool: 'M3 4.5C3 3.1 13 3.1 13 4.5S3 5.9 3 4.5v7c0 1.4 10 1.4 10 0v-7M3 8c0 1.4 10 1.4 10 0',
  space: 'M3 3h4v4H3zM9 3h4v4H9zM3 9h4v4H3zM9 9h4v4H9z',
  volume: 'M2.5 4h4l1.5 2h5.5v7h-11z',
  export: 'M2.5 8.5v4h11v-4M8 10.5v-8M5 5.5l3-3 3 3',
  target: 'M3 3h10v4H3zM3 9h10v4H3zM5.5 5h1M5.5 11h1M10 5h1.5M10 11h1.5',
  job: 'M8 2.5a5.5 5.5 0 1 0 5.5 5.5M8 5v3l2 2M11 2.5h2.5V5',
  event: 'M3 3.5h10M3 8h10M3 12.5h6',
  bell: 'M8 2.5a3.5 3.5 0 0 1 3.5 3.5v3L13 11.5H3L4.5 9V6A3.5 3.5 0 0 1 8 2.5M6.5 13.5h3',
  access: 'M6 8.5a3 3 0 1 1 2.6-1.5L13.5 12v1.5H11V12H9.5v-1.5z',
  settings: 'M2.5 5h6M11.5 5h2M2.5 11h2M7.5 11h6M10 3.5v3M6 9.5v3',
  ok: 'M8 2a6 6 0 1 0 .01 0M5.3 8.2 7.2 10l3.5-3.8',
  info: 'M8 2a6 6 0 1 0 .01 0M8 7.3v3.4M8 5v.3',
  warning: 'M8 2.5 14 13H2zM8 6.5v3M8 11.2v.3',
  error: 'M5.5 2h5L14 5.5v5L10.5 14h-5L2 10.5v-5zM6 6l4 4M10 6l-4 4',
  muted: 'M8 2a6 6 0 1 0 .01 0M5.5 8h5',
  copy: 'M5.5 5.5h7v8h-7zM10.5 5.5v-3h-7v8h2',
  check: 'M3 8.5 6.5 12 13 4.5',
  close: 'M4 4l8 8M12 4l-8 8',
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  search: 'M7 3a4 4 0 1 0 .01 0M10 10l3.5 3.5',
  down: 'M4 6l4 4 4-4',
  up: 'M4 10l4-4 4 4',
  right: 'M6 4l4 4-4 4',
  left: 'M10 4 6 8l4 4',
  plus: 'M8 3v10M3 8h10',
  user: 'M8 3a2.5 2.5 0 1 0 .01 0M3 13.5c.4-3 2.2-4.5 5-4.5s4.6 1.5 5 4.5',
  sun: 'M8 5.2a2.8 2.8 0 1 0 .01 0M8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9',
  moon: 'M13 9.5A5.5 5.5 0 1 1 6.5 3 4.5 4.5 0 0 0 13 9.5z',
  system: 'M2.5 3h11v7.5h-11zM6 13.5h4M8 10.5v3',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  play: 'M5 3.5v9l7.5-4.5z',
  more: 'M3.5 7.6a.5.5 0 1 0 .01 0M8 7.6a.5.5 0 1 0 .01 0M12.5 7.6a.5.5 0 1 0 .01 0',
  folder: 'M2 4h4.5l1.5 1.5H14V13H2z',
  file: 'M4 2h5l3 3v9H4zM9 2v3h3',
  light: 'M8 2a4 4 0 0 0-2 7.5V11h4V9.5A4 4 0 0 0 8 2M6.5 13.5h3',
} as const;

export type IconName = keyof typeof paths;

export function iconPath(name: IconName): string {
  return paths[name];
}
