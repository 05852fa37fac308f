#include "db/test/history_testing.h"

namespace dlsm {

std::string DescribeAccesses(const Operation& operation) {
  std::string text;
  for (const Access& access : operation.accesses) {
    if (!text.empty()) text += ", ";
    text += "register " + std::to_string(access.register_index);
    text += operation.writes() ? " := " : " = ";
    text += access.value == kNoValue ? "absent" : std::to_string(access.value);
  }
  for (const Access& access : operation.saw) {
    text += ", before: register " + std::to_string(access.register_index) + " = ";
    text += access.value == kNoValue ? "absent" : std::to_string(access.value);
  }
  return text;
}

History CutIntoRegisters(const History& history) {
  History cut;
  for (const Operation& operation : history) {
    for (const Access& access : operation.accesses) {
      cut.push_back(operation);
      cut.back().accesses = {access};
      std::erase_if(cut.back().saw, [&access](const Access& other) {
        return other.register_index != access.register_index;
      });
    }
  }
  return cut;
}

History OrderedTogether(const History& history) {
  History together;
  for (const Operation& operation : history) {
    if (!operation.ordered_per_register) together.push_back(operation);
  }
  return together;
}

HistoryRecorder::HistoryRecorder(int threads) {
  for (int thread = 0; thread < threads; ++thread) logs_.emplace_back(*this, thread);
}

History HistoryRecorder::Collect() const {
  History all;
  for (const Log& log : logs_) {
    all.insert(all.end(), log.operations_.begin(), log.operations_.end());
  }
  return all;
}

}  // namespace dlsm
