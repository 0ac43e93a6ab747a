import quartet from "./index.cjs";

export const { startQuartet, binary, library } = quartet;
