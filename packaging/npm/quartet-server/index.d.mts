export { startQuartet, binary, library, type Quartet, type StartOptions } from "./index.cjs";
