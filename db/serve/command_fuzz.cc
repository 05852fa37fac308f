// Any bytes are commands over a handful of keys; the executor answers them as the model does.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "db/serve/command_driver_testing.h"

namespace dlsm::serve {
namespace {

// Made once: to make a database takes much longer than to run some commands.
CommandDriver& Driver() {
  static CommandDriver* const driver = [] {
    std::unique_ptr<CommandDriver> made;
    if (!CommandDriver::Open(&made).ok()) std::abort();
    return made.release();
  }();
  return *driver;
}

}  // namespace
}  // namespace dlsm::serve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string wrong = dlsm::serve::Driver().Run(data, size);
  if (wrong.empty()) return 0;
  std::fputs(wrong.c_str(), stderr);
  std::abort();
}
