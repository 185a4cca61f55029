/* Writes a file again and again with O_DIRECT and asynchronous I/O while two processes read it
 * through the page cache. After each write has completed, the page cache must give the new content.
 * Prints the first old word found and exits with 1; exits with 77 where there is no such I/O. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN (640 * 1024)
#define WORDS (LEN / 4)

static uint32_t *direct, seen[WORDS];

static void fail(const char *what, int code)
{
    perror(what);
    exit(code);
}

static void reader(const char *path)
{
    int fd = open(path, O_RDONLY);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (fd >= 0 && pread(fd, seen, LEN, 0) >= 0)
        ;
    exit(1);
}

static void write_all(aio_context_t context, int fd)
{
    struct iocb block = {
        .aio_lio_opcode = IOCB_CMD_PWRITE,
        .aio_fildes = fd,
        .aio_buf = (uintptr_t)direct,
        .aio_nbytes = LEN,
    };
    struct iocb *blocks[] = { &block };
    struct io_event event;

    if (syscall(SYS_io_submit, context, 1, blocks) != 1)
        fail("io_submit", 2);
    if (syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1 || event.res != LEN)
        fail("io_getevents", 2);
}

int main(int argc, char **argv)
{
    aio_context_t context = 0;
    int rounds = argc == 3 ? atoi(argv[2]) : 0, result = 0;
    int fd = open(argv[1], O_RDWR | O_CREAT | O_DIRECT, 0644), cached = open(argv[1], O_RDONLY);
    pid_t readers[2];

    if (posix_memalign((void **)&direct, 4096, LEN) || syscall(SYS_io_setup, 1, &context))
        fail("io_setup", 77);
    if (fd < 0 || cached < 0)
        fail(argv[1], 2);
    for (int i = 0; i < 2; i++)
        if ((readers[i] = fork()) == 0)
            reader(argv[1]);
    for (uint32_t round = 1; round <= (uint32_t)rounds && !result; round++) {
        for (int i = 0; i < WORDS; i++)
            direct[i] = round;
        write_all(context, fd);
        if (pread(cached, seen, LEN, 0) != LEN)
            fail("pread", 2);
        for (int i = 0; i < WORDS && !result; i++)
            if ((result = seen[i] != round))
                printf("round %u: word %d is of round %u\n", round, i, seen[i]);
    }
    for (int i = 0; i < 2; i++) {
        kill(readers[i], SIGKILL);
        waitpid(readers[i], NULL, 0);
    }
    return result;
}
