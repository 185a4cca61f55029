// Lists an image with modes, owners and sizes: tree IMAGE [VOLUME]
#include <eraseblock.h>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// Throws what a function reported.
struct Failure {
    eb_error *error = nullptr;
    operator eb_error **() { return &error; }
    template <class T> T *check(T *made) {
        if (!made)
            raise();
        return made;
    }
    void check(int result) {
        if (result < 0)
            raise();
    }
    void raise() {
        std::string message = eb_error_message(error);
        eb_error_free(error);
        throw std::runtime_error(message);
    }
};

using Fs = std::unique_ptr<eb_fs, decltype(&eb_fs_unref)>;
using Image = std::unique_ptr<eb_image, decltype(&eb_image_unref)>;

static int collect(void *names, const eb_dirent *entry) {
    static_cast<std::vector<std::string> *>(names)->push_back(entry->name);
    return 0;
}

static void list(const Fs &fs, const std::string &path) {
    Failure failure;
    std::vector<std::string> names;
    failure.check(eb_list(fs.get(), path.c_str(), collect, &names, failure));
    for (const auto &name : names) {
        std::string inner = path + "/" + name;
        eb_stat_t stat = {};
        stat.struct_size = sizeof stat;
        failure.check(eb_lstat(fs.get(), inner.c_str(), &stat, failure));
        std::printf("%o %u:%u %llu %s\n", static_cast<unsigned>(stat.mode), stat.uid, stat.gid,
                    static_cast<unsigned long long>(stat.size), inner.c_str());
        if ((stat.mode & 0170000) == 0040000)
            list(fs, inner);
    }
}

int main(int argc, char **argv) try {
    Failure failure;
    if (argc < 2)
        throw std::runtime_error("usage: tree IMAGE [VOLUME]");
    Image image(failure.check(eb_open(argv[1], nullptr, failure)), eb_image_unref);
    Fs fs(failure.check(eb_image_fs(image.get(), argc > 2 ? argv[2] : nullptr, failure)), eb_fs_unref);
    list(fs, "");
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
