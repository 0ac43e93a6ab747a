/* Kills the process before a sync: the one whose number, from 1, is in the file that KILL_AT_SYNC names, counted while that file is there. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void count(void) {
    static atomic_long counted;
    const char *name = getenv("KILL_AT_SYNC");
    FILE *file = name == NULL ? NULL : fopen(name, "r");
    long number = 0;
    if (file == NULL) return;
    if (fscanf(file, "%ld", &number) == 1 && atomic_fetch_add(&counted, 1) + 1 == number) {
        kill(getpid(), SIGKILL);
        pause();
    }
    fclose(file);
}

int fsync(int descriptor) {
    count();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(descriptor);
}

int fdatasync(int descriptor) {
    count();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(descriptor);
}
