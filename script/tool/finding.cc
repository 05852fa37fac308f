#include "script/tool/finding.h"

#include <fmt/core.h>

#include <algorithm>

namespace dlsm::tool {
namespace {

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "good";
    case Verdict::kNote:
      return "note";
    case Verdict::kBad:
      return "BAD";
  }
  return "?";
}

}  // namespace

void PrintFindings(const Findings& findings, std::ostream* out) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.subject.size());
  for (const Finding& finding : findings) {
    *out << fmt::format("{:4}  {:{}}  {}\n", VerdictName(finding.verdict), finding.subject, width,
                        finding.detail);
    if (!finding.remedy.empty()) *out << fmt::format("{:{}}-> {}\n", "", width + 8, finding.remedy);
  }
}

bool AnyBad(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.verdict == Verdict::kBad; });
}

}  // namespace dlsm::tool
