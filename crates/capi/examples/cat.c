/* Prints a file of an image: cat IMAGE PATH [VOLUME] */
#include <eraseblock.h>
#include <stdio.h>

static int failed(eb_error *error) {
    fprintf(stderr, "%s\n", eb_error_message(error));
    if (eb_error_hint(error))
        fprintf(stderr, "hint: %s\n", eb_error_hint(error));
    eb_error_free(error);
    return 1;
}

int main(int argc, char **argv) {
    eb_error *error = NULL;
    if (argc < 3) {
        fprintf(stderr, "usage: cat IMAGE PATH [VOLUME]\n");
        return 2;
    }
    eb_image *image = eb_open(argv[1], NULL, &error);
    if (!image)
        return failed(error);
    eb_fs *fs = eb_image_fs(image, argc > 3 ? argv[3] : NULL, &error);
    eb_image_unref(image);
    if (!fs)
        return failed(error);
    eb_file *file = eb_file_open(fs, argv[2], &error);
    eb_fs_unref(fs);
    if (!file)
        return failed(error);
    static char buffer[1 << 16];
    uint64_t offset = 0;
    int64_t got;
    while ((got = eb_file_read(file, offset, buffer, sizeof buffer, &error)) > 0) {
        fwrite(buffer, 1, (size_t)got, stdout);
        offset += (uint64_t)got;
    }
    eb_file_unref(file);
    return got < 0 ? failed(error) : 0;
}
