// What reads of a database have cost on the wire, as "dlsm.wire" tells it.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "dLSM/db.h"
#include "util/fabric/wire_cost.h"

namespace dlsm {

inline WireCounts ReadCounts(DB* db) {
  std::string text;
  EXPECT_TRUE(db->GetProperty("dlsm.wire", &text));
  std::istringstream lines(text);
  std::string purpose;
  WireCounts counts;
  for (std::string rest; lines >> purpose >> counts.round_trips >> counts.work_requests >>
                         counts.doorbells >> counts.read_bytes;) {
    if (purpose == PurposeName(Purpose::kRead)) return counts;
    std::getline(lines, rest);
  }
  return {};  // Nothing was read yet.
}

}  // namespace dlsm
