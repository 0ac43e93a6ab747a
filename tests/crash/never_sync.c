/* A server that never syncs: preloaded to see whether the harness notices. */

int fsync(int descriptor) { return 0 * descriptor; }
int fdatasync(int descriptor) { return 0 * descriptor; }
