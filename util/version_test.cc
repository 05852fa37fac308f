// The version as numbers, as text and as the programs print it.
#include "dLSM/version.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "util/program_version.h"

namespace dlsm {
namespace {

TEST(VersionTest, TheTextIsTheNumbers) {
  EXPECT_EQ(VersionString(), std::to_string(kMajorVersion) + "." + std::to_string(kMinorVersion) +
                                 "." + std::to_string(kPatchVersion));
  EXPECT_EQ(VersionString(), VersionString());  // The same text each time, which lives on.
}

// What a program with these arguments prints; "no" if it is not asked.
std::string Printed(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  testing::internal::CaptureStdout();
  const bool printed = PrintedVersion(static_cast<int>(pointers.size()), pointers.data());
  const std::string text = testing::internal::GetCapturedStdout();
  return printed ? text : "no" + text;
}

TEST(VersionTest, AProgramSaysItsNameAndTheVersion) {
  const std::string version = VersionString();
  EXPECT_EQ(Printed({"/usr/bin/dlsm_tool", "--version"}), "dlsm_tool " + version + "\n");
  EXPECT_EQ(Printed({"Server", "19843", "8", "1", "-version"}), "Server " + version + "\n");
  EXPECT_EQ(Printed({"Server"}), "no");
  EXPECT_EQ(Printed({"Server", "--versions"}), "no");
  EXPECT_EQ(Printed({"dlsm_tool", "--", "--version"}), "no");  // A name or a key.
}

}  // namespace
}  // namespace dlsm
