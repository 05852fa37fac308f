// Commands over a handful of keys are answered as a model of standard containers answers them,
// whatever types the keys have, when they expire, and how commands share rounds and transactions.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "db/serve/command_driver_testing.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm::serve {
namespace {

TEST(CommandModelTest, CommandsAnswerAsTheModelDoes) {
  std::unique_ptr<CommandDriver> driver;
  ASSERT_OK(CommandDriver::Open(&driver));
  constexpr uint64_t kCommands = 100'000;
  for (uint64_t seed = 1; driver->commands() < kCommands; ++seed) {
    Random random(seed);
    std::vector<uint8_t> bytes(200 + random.Uniform(2000));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next());
    const std::string wrong = driver->Run(bytes.data(), bytes.size());
    ASSERT_EQ(wrong, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace dlsm::serve
