/* A server whose flushes of the ssd engine end only when nobody else locks the file that HELD_FLUSH names: preloaded. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* The last step of a flush gives `base` its new content. */
int rename(const char *from, const char *to) {
  int (*renames)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
  const char *lock = getenv("HELD_FLUSH"), *name = strrchr(to, '/');
  if (lock && name && strcmp(name, "/base") == 0) {
    int descriptor = open(lock, O_RDWR);
    flock(descriptor, LOCK_EX);
    close(descriptor);
  }
  return renames(from, to);
}
