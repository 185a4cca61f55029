/* encode PATH: prints the file handle of PATH.
 * open DIR HANDLE: opens it on the file system of DIR; prints the content of a file, the path of a
 * directory. Exits with the error number. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static union {
    struct file_handle handle;
    char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
} it;

static int encode(const char *path)
{
    int mount;

    it.handle.handle_bytes = MAX_HANDLE_SZ;
    if (name_to_handle_at(AT_FDCWD, path, &it.handle, &mount, 0))
        return errno;
    printf("%d:", it.handle.handle_type);
    for (unsigned i = 0; i < it.handle.handle_bytes; i++)
        printf("%02x", it.handle.f_handle[i]);
    return 0;
}

static int open_handle(const char *dir, char *text)
{
    int mount = open(dir, O_RDONLY | O_DIRECTORY), fd;
    char *hex = strchr(text, ':'), buffer[4096];
    struct stat stat;
    ssize_t len;

    it.handle.handle_type = atoi(text);
    for (hex++; sscanf(hex, "%2hhx", &it.handle.f_handle[it.handle.handle_bytes]) == 1; hex += 2)
        it.handle.handle_bytes++;
    fd = open_by_handle_at(mount, &it.handle, O_RDONLY);
    if (fd < 0 || fstat(fd, &stat))
        return errno;
    if (S_ISDIR(stat.st_mode)) {
        snprintf(buffer, sizeof(buffer), "/proc/self/fd/%d", fd);
        char path[4096];
        len = readlink(buffer, path, sizeof(path));
        return len < 0 ? errno : fwrite(path, 1, len, stdout) != (size_t)len;
    }
    while ((len = read(fd, buffer, sizeof(buffer))) > 0)
        fwrite(buffer, 1, len, stdout);
    return len < 0 ? errno : 0;
}

int main(int argc, char **argv)
{
    return argc == 3 ? encode(argv[2]) : argc == 4 ? open_handle(argv[2], argv[3]) : EINVAL;
}
