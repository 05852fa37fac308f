// Functions of a shared library that is opened at run time: so one binary runs on machines with it
// and without.
#pragma once

#include <dlfcn.h>

#include <string>

namespace dlsm {

// Lives while the functions are looked up. The library itself is never closed: what it has loaded
// keeps pointers into it.
class SharedLibrary {
 public:
  explicit SharedLibrary(const char* file)
      : library_(::dlopen(file, RTLD_NOW | RTLD_LOCAL)),
        // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps it for each thread.
        error_(library_ == nullptr ? ::dlerror() : "") {}

  // Empty if it was opened; else why not.
  const std::string& error() const { return error_; }
  // Sets *function, until one is missing.
  template <typename Function>
  void Find(const char* name, Function* function) {
    if (library_ == nullptr || !missing_.empty()) return;
    *function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (*function == nullptr) missing_ = name;
  }
  // The first function that it does not have; empty if it has all.
  const std::string& missing() const { return missing_; }

 private:
  void* const library_;
  const std::string error_;
  std::string missing_;
};

}  // namespace dlsm
