export { startQuartet, binary, type Quartet, type StartOptions } from "./index.cjs";
