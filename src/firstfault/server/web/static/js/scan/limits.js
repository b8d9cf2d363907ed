/** Sizes that the scanner and the excerpt share with the Python engine; a test compares them. */
export const PIECE_BYTES = 8192;
export const STRIDE_BYTES = PIECE_BYTES / 2;
export const TAIL_BYTES = 4096;
export const LOOK_AHEAD = PIECE_BYTES + TAIL_BYTES + 64;
export const CELL_BYTES = 512 << 10;
export const KEPT_BYTES = CELL_BYTES + LOOK_AHEAD + (64 << 10);
export const BLOCK_BYTES = 4 << 20;
export const RECENT = 64;

export const FIRST_HITS = 20_000;
export const FIRST_HITS_PER_SIGNAL = 2_000;
export const LAST_HITS = 5_000;
export const FIRST_TEXT = 16 << 20;
export const LAST_TEXT = 4 << 20;

export const WINDOW_BEFORE = 32 << 10;
export const WINDOW_AFTER = 96 << 10;
export const WINDOW_EDGE = 64 << 10;
export const WINDOW_WHOLE = 1 << 20;
export const WINDOWS_FIRST = 3 << 20;
export const WINDOWS_LAST = 3 << 20;

export const WHOLE_BYTES = 256 << 10;
export const SMALLEST_WHOLE_BYTES = 8 << 10;
export const ALL_WHOLE_BYTES = 4 << 20;
export const EDGE_LINES = 200;
export const FEWEST_EDGE_LINES = 20;
export const ALL_EDGE_LINES = 3_200;
export const EDGE_BYTES = 32 << 10;
export const LINES_AROUND = 60;
export const BYTES_AROUND = 16 << 10;
export const LINES_BEFORE_OTHERS = 2;
export const LINES_AFTER_OTHERS = 4;
export const SIGHTINGS = 40;
export const MAX_LINE_BYTES = 8_192;
export const MAX_TEXT_BYTES = 20 << 20;
export const MAX_LINE_CHARS = 65_536;
