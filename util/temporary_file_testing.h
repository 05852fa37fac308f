// A file that lives as long as the object, for tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace dlsm {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& contents, mode_t mode = 0600)
      : path_(testing::TempDir() + "dlsm_test_XXXXXX") {
    close(mkstemp(path_.data()));
    std::ofstream(path_, std::ios::binary) << contents;
    chmod(path_.c_str(), mode);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { unlink(path_.c_str()); }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace dlsm
