/* Calls every function with good and with bad arguments: all LAYOUT SCRATCH. SCRATCH is an empty folder. */
#include <eraseblock.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int passed, missed;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (what)                                                                                  \
            passed++;                                                                              \
        else {                                                                                     \
            missed++;                                                                              \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what);                                     \
        }                                                                                          \
    } while (0)

/* Whether a call failed with a code and a message, and frees the error. */
static int is(eb_error **error, int code, const char *words) {
    int right = *error && eb_error_code(*error) == code && strstr(eb_error_message(*error), words);
    if (!right)
        fprintf(stderr, "found %d: %s\n", eb_error_code(*error), eb_error_message(*error));
    eb_error_free(*error);
    *error = NULL;
    return right;
}

/* Counts what is more than a note. */
static int count(void *data, const eb_finding *finding) {
    CHECK(finding->code && finding->place && finding->message && finding->severity <= 2);
    *(int *)data += finding->severity > 0;
    return 0;
}

static int names(void *data, const eb_dirent *entry) {
    strcat(strcat((char *)data, entry->name), entry->type_bits == 0040000 ? "/ " : " ");
    return 0;
}

static int second(void *data, const eb_dirent *entry) {
    (void)entry;
    return ++*(int *)data == 2 ? 7 : 0;
}

static int volumes(void *data, const eb_volume *volume) {
    CHECK(volume->size > 0 && volume->is_static == (volume->id == 0));
    strcat(strcat((char *)data, volume->name), " ");
    return 0;
}

static int xattr(void *data, const char *name, const void *value, size_t length) {
    (void)value;
    (void)length;
    strcat(strcat((char *)data, name), " ");
    return 0;
}

/* An image in memory, read by callbacks. */
struct memory {
    const char *bytes;
    uint64_t size;
    int fails, closed;
};

static int pread_memory(void *data, void *buffer, size_t length, uint64_t offset) {
    struct memory *memory = data;
    if (memory->fails)
        return EIO;
    memcpy(buffer, memory->bytes + offset, length);
    return 0;
}

static void close_memory(void *data) {
    ((struct memory *)data)->closed++;
}

static char *slurp(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size);
    CHECK(fread(bytes, 1, *size, file) == *size);
    fclose(file);
    return bytes;
}

/* What each of four threads does with one file system. */
static void *work(void *data) {
    eb_fs *fs = eb_fs_ref(data);
    long wrong = 0;
    for (int round = 0; round < 50; round++) {
        char buffer[64] = {0};
        wrong += eb_read(fs, "/etc/motd", 0, buffer, sizeof buffer, NULL) != 12;
        wrong += strcmp(buffer, "hello flash\n") != 0;
        wrong += eb_read(fs, "/none", 0, buffer, sizeof buffer, NULL) != -1;
    }
    eb_fs_unref(fs);
    return (void *)wrong;
}

static void with_threads(eb_fs *fs) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, work, fs) == 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        CHECK(wrong == NULL);
    }
}

static void reading(eb_fs *fs) {
    eb_error *error = NULL;
    char text[4096] = "";
    CHECK(eb_list(fs, "/etc", names, text, &error) == 0 && !strcmp(text, "issue motd "));
    text[0] = 0;
    CHECK(eb_list(fs, "", names, text, &error) == 0 && !strcmp(text, "big etc/ "));
    int calls = 0;
    CHECK(eb_list(fs, "/", second, &calls, &error) == 7 && calls == 2);
    CHECK(eb_list(fs, "/none", names, text, &error) == -1 && is(&error, EB_REFUSED, "none"));
    CHECK(eb_list(fs, "/etc/motd", names, text, &error) == -1 && is(&error, EB_REFUSED, "motd"));
    CHECK(eb_list(fs, "/", NULL, text, &error) == -1 && is(&error, EB_USAGE, "callback"));

    eb_stat_t stat = {.struct_size = sizeof stat};
    CHECK(eb_stat(fs, "/etc/issue", &stat, &error) == 0 && stat.size == 12 && stat.mode == 0100640);
    CHECK(eb_lstat(fs, "/etc/issue", &stat, &error) == 0 && (stat.mode & 0170000) == 0120000);
    CHECK(stat.mtime == 1700000000 && stat.nlink == 1);
    CHECK(eb_stat(fs, "/none", &stat, &error) == -1 && is(&error, EB_REFUSED, "none"));
    CHECK(eb_stat(fs, "/", NULL, &error) == -1 && is(&error, EB_USAGE, "out"));
    stat.struct_size = 8;
    CHECK(eb_stat(fs, "/", &stat, &error) == -1 && is(&error, EB_USAGE, "struct_size is 8"));

    CHECK(eb_readlink(fs, "/etc/issue", text, sizeof text, &error) == 4 && !memcmp(text, "motd", 4));
    CHECK(eb_readlink(fs, "/etc/issue", text, 2, &error) == 4);
    CHECK(eb_readlink(fs, "/etc/issue", NULL, 0, &error) == 4);
    CHECK(eb_readlink(fs, "/etc/issue", NULL, 2, &error) == -1 && is(&error, EB_USAGE, "buffer"));
    CHECK(eb_readlink(fs, "/etc/motd", text, 2, &error) == -1 && is(&error, EB_REFUSED, "motd"));
    text[0] = 0;
    CHECK(eb_xattrs(fs, "/etc/motd", xattr, text, &error) == 0);
    CHECK(eb_xattrs(fs, "/none", xattr, text, &error) == -1 && is(&error, EB_REFUSED, "none"));
    CHECK(eb_xattrs(fs, "/", NULL, text, &error) == -1 && is(&error, EB_USAGE, "callback"));

    memset(text, 0, sizeof text);
    CHECK(eb_read(fs, "etc/motd", 6, text, 64, &error) == 6 && !strcmp(text, "flash\n"));
    CHECK(eb_read(fs, "etc/motd", 12, text, 64, &error) == 0);
    CHECK(eb_read(fs, "etc/motd", UINT64_MAX, text, 64, &error) == 0);
    CHECK(eb_read(fs, "etc/motd", 0, NULL, 0, &error) == 0);
    CHECK(eb_read(fs, "etc/motd", 0, NULL, 1, &error) == -1 && is(&error, EB_USAGE, "buffer"));
    CHECK(eb_read(fs, "etc", 0, text, 1, &error) == -1 && is(&error, EB_REFUSED, "etc"));
    CHECK(eb_read(fs, NULL, 0, text, 1, &error) == -1 && is(&error, EB_USAGE, "path"));
    CHECK(eb_read(NULL, "etc", 0, text, 1, &error) == -1 && is(&error, EB_USAGE, "fs"));

    eb_file *file = eb_file_open(fs, "/big", &error);
    CHECK(file && eb_file_size(file) == 200000);
    CHECK(eb_file_size(NULL) == 0 && eb_file_ref(file) == file);
    eb_file_unref(file);
    char *big = malloc(200001);
    CHECK(eb_file_read(file, 0, big, 200001, &error) == 200000 && big[0] == 'x' && big[199999] == 'x');
    free(big);
    CHECK(eb_file_read(NULL, 0, text, 1, &error) == -1 && is(&error, EB_USAGE, "file"));
    eb_file_unref(file);
    eb_file_unref(NULL);
    CHECK(!eb_file_open(fs, "/none", &error) && is(&error, EB_REFUSED, "none"));
    int found = 0;
    CHECK(eb_fs_findings(fs, count, &found, &error) == 0 && found == 0);
    CHECK(eb_fs_findings(NULL, count, &found, &error) == -1 && is(&error, EB_USAGE, "fs"));
}

static void copying(eb_fs *fs, const char *scratch) {
    eb_error *error = NULL;
    char path[4096], tar[5000];
    snprintf(path, sizeof path, "%s/out", scratch);
    eb_extract_options options = {.struct_size = sizeof options, .owners = 2};
    int found = 0;
    CHECK(eb_extract(fs, path, &options, count, &found, &error) == 0 && found == 0);
    CHECK(eb_extract(fs, path, &options, NULL, NULL, &error) == -1 && is(&error, EB_REFUSED, "out"));
    options.force = 1;
    CHECK(eb_extract(fs, path, &options, NULL, NULL, &error) == 0);
    options.owners = 3;
    CHECK(eb_extract(fs, path, &options, NULL, NULL, &error) == -1 && is(&error, EB_USAGE, "owners"));
    options.struct_size = 1;
    CHECK(eb_extract(fs, path, &options, NULL, NULL, &error) == -1 && is(&error, EB_USAGE, "struct_size"));
    CHECK(eb_extract(fs, NULL, NULL, NULL, NULL, &error) == -1 && is(&error, EB_USAGE, "folder"));
    size_t size;
    snprintf(tar, sizeof tar, "%s/etc/motd", path);
    char *motd = slurp(tar, &size);
    CHECK(size == 12 && !memcmp(motd, "hello flash\n", 12));
    free(motd);

    snprintf(tar, sizeof tar, "%s/out.tar", scratch);
    int descriptor = open(tar, O_CREAT | O_WRONLY, 0600);
    CHECK(eb_to_tar(fs, descriptor, count, &found, &error) == 0 && found == 0);
    CHECK(close(descriptor) == 0);
    CHECK(eb_to_tar(fs, -1, NULL, NULL, &error) == -1 && is(&error, EB_USAGE, "descriptor"));
    descriptor = open("/dev/full", O_WRONLY);
    CHECK(eb_to_tar(fs, descriptor, NULL, NULL, &error) == -1 && is(&error, EB_HOST_FULL, ""));
    close(descriptor);
}

static void opening(const char *path) {
    eb_error *error = NULL;
    CHECK(!eb_open("/none/image", NULL, &error) && is(&error, EB_HOST, "/none/image"));
    CHECK(!eb_open(NULL, NULL, &error) && is(&error, EB_USAGE, "path"));
    CHECK(!eb_open("/none/image", NULL, NULL));
    CHECK(!eb_open_bytes("hsqs, and so on", 15, NULL, &error) && error);
    eb_error_free(error);
    error = NULL;
    CHECK(!eb_open_bytes(NULL, 15, NULL, &error) && is(&error, EB_USAGE, "bytes"));
    eb_options options = {.struct_size = sizeof options, .format = "ext4"};
    CHECK(!eb_open(path, &options, &error) && is(&error, EB_USAGE, "ext4"));
    options.struct_size = 3;
    CHECK(!eb_open(path, &options, &error) && is(&error, EB_USAGE, "struct_size"));

    size_t size;
    char *bytes = slurp(path, &size);
    struct memory memory = {.bytes = bytes, .size = size};
    eb_io io = {.struct_size = sizeof io, .data = &memory, .pread = pread_memory, .size = size, .close = close_memory};
    options = (eb_options){.struct_size = sizeof options, .format = "ubi", .peb = 131072, .threads = 2};
    eb_image *image = eb_open_io(&io, &options, &error);
    CHECK(image && !strcmp(eb_image_format(image), "ubi"));
    eb_fs *fs = eb_image_fs(image, "1", &error);
    eb_image_unref(image);
    CHECK(fs && memory.closed == 0);
    memory.fails = 1;
    CHECK(eb_read(fs, "/big", 0, bytes, 10, &error) == -1 && error);
    eb_error_free(error);
    error = NULL;
    eb_fs_unref(fs);
    CHECK(memory.closed == 1);
    CHECK(!eb_open_io(&io, NULL, &error) && memory.closed == 2 && error);
    eb_error_free(error);
    error = NULL;
    io.pread = NULL;
    CHECK(!eb_open_io(&io, NULL, &error) && memory.closed == 3 && is(&error, EB_USAGE, "pread"));
    io.struct_size = 0;
    CHECK(!eb_open_io(&io, NULL, &error) && memory.closed == 3 && is(&error, EB_USAGE, "eb_io"));
    CHECK(!eb_open_io(NULL, NULL, &error) && is(&error, EB_USAGE, "io"));

    image = eb_open_bytes(bytes, size, NULL, &error);
    free(bytes);
    CHECK(image && eb_image_ref(image) == image);
    eb_image_unref(image);
    char text[64] = "";
    CHECK(eb_image_volumes(image, volumes, text, &error) == 0 && !strcmp(text, "env rootfs "));
    CHECK(eb_image_volumes(image, NULL, text, &error) == -1 && is(&error, EB_USAGE, "callback"));
    int found = 0;
    CHECK(eb_image_findings(image, count, &found, &error) == 0);
    CHECK(eb_image_findings(image, NULL, NULL, &error) == 0);
    CHECK(!eb_image_fs(image, "none", &error) && is(&error, EB_REFUSED, "none"));
    CHECK(!eb_image_fs(NULL, NULL, &error) && is(&error, EB_USAGE, "image"));
    eb_image_unref(image);
    eb_image_unref(NULL);
    eb_fs_unref(NULL);
    CHECK(!eb_image_ref(NULL) && !eb_image_format(NULL) && !eb_fs_ref(NULL) && !eb_file_ref(NULL));
}

static void checking(const char *path, const char *layout, const char *scratch) {
    eb_error *error = NULL;
    int found = 0;
    CHECK(eb_check(path, NULL, count, &found, &error) == 0 && found == 0);
    CHECK(eb_check("/none/image", NULL, NULL, NULL, &error) == -1 && is(&error, EB_HOST, "/none"));
    char damaged[4096];
    snprintf(damaged, sizeof damaged, "%s/damaged.ubi", scratch);
    size_t size;
    char *bytes = slurp(path, &size);
    char *content = memmem(bytes, size, "hello flash", 11);
    CHECK(content);
    content[0] = 'j';
    FILE *file = fopen(damaged, "wb");
    CHECK(fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
    free(bytes);
    CHECK(eb_check(damaged, NULL, count, &found, &error) == 1 && found > 0);
    eb_image *image = eb_open(damaged, NULL, &error);
    eb_fs *fs = eb_image_fs(image, "rootfs", &error);
    char buffer[64] = {0};
    CHECK(eb_read(fs, "/etc/motd", 0, buffer, 64, &error) == -1 && buffer[0] == 0);
    CHECK(is(&error, EB_CORRUPTION, "CRC"));
    eb_fs_unref(fs);
    eb_image_unref(image);
    CHECK(eb_build("/none/layout", damaged, &error) == -1 && is(&error, EB_HOST, "/none"));
    CHECK(eb_build(layout, NULL, &error) == -1 && is(&error, EB_USAGE, "image"));
    CHECK(!strcmp(eb_error_message(NULL), "no error") && !eb_error_hint(NULL) && !eb_error_code(NULL));
    eb_error_free(NULL);
}

int main(int argc, char **argv) {
    char path[4096];
    eb_error *error = NULL;
    if (argc != 3)
        return 2;
    snprintf(path, sizeof path, "%s/board.ubi", argv[2]);
    if (eb_build(argv[1], path, &error) != 0) {
        fprintf(stderr, "%s\n", eb_error_message(error));
        return 1;
    }
    CHECK(eb_version()[0] >= '0' && eb_version()[0] <= '9');
    opening(path);
    checking(path, argv[1], argv[2]);
    eb_image *image = eb_open(path, NULL, &error);
    eb_fs *fs = eb_image_fs(image, NULL, &error);
    eb_image_unref(image);
    CHECK(fs);
    reading(fs);
    copying(fs, argv[2]);
    with_threads(fs);
    eb_fs_unref(fs);
    printf("%d passed, %d failed\n", passed, missed);
    return missed != 0;
}
