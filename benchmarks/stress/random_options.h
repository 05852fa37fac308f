// Options of a stress run, drawn at random.
#pragma once

#include <string>

#include "dLSM/options.h"
#include "util/random.h"

namespace dlsm::stress {

struct DrawnOptions {
  Options options;
  std::string text;  // What was drawn, for people.
};

// Of a new database: what it is, and how it is opened first. Its keys are KeySpace's, `keys` of
// them; `shards_max` bounds the shards, `nodes` is the number of memory nodes.
DrawnOptions DrawDatabase(uint64_t keys, int shards_max, Random* random);

// The same database opened another way: sizes, threads, schedules and places are drawn anew.
DrawnOptions DrawReopening(const DrawnOptions& before, Random* random);

}  // namespace dlsm::stress
