// Linked into each fuzz target between the fuzzer and its target (ld --wrap), to say at the end how
// much the target was given.
#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names.
extern "C" int __real_LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

class Totals {
 public:
  ~Totals() { fmt::print(stderr, "fuzz totals: {} inputs, {} bytes\n", inputs_, bytes_); }
  void Add(size_t bytes) {
    ++inputs_;
    bytes_ += bytes;
  }

 private:
  uint64_t inputs_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace

extern "C" int __wrap_LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Totals totals;
  totals.Add(size);
  return __real_LLVMFuzzerTestOneInput(data, size);
}
// NOLINTEND(bugprone-reserved-identifier)
