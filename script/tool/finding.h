// What a check of dlsm_tool doctor has to say.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace dlsm::tool {

enum class Verdict : uint8_t {
  kGood,
  kNote,  // Works, but something is slower or less than it could be.
  kBad,   // dLSM, or the fabric that was asked for, will not work.
};

struct Finding {
  Verdict verdict = Verdict::kGood;
  std::string subject;  // "locked memory"
  std::string detail;   // What was found.
  std::string remedy;   // What to do about it; empty if nothing.
};

using Findings = std::vector<Finding>;

// One line for each: verdict, subject, detail; and a second one for a remedy.
void PrintFindings(const Findings& findings, std::ostream* out);

bool AnyBad(const Findings& findings);

}  // namespace dlsm::tool
