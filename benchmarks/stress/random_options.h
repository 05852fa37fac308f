// Options of a stress run, drawn at random.
#pragma once

#include <string>

#include "benchmarks/stress/key_space.h"
#include "dLSM/options.h"
#include "util/random.h"

namespace dlsm::stress {

struct DrawnOptions {
  Options options;
  std::string text;  // What was drawn, for people.
};

// Of a new database: what it is, and how it is opened first. Its keys are those of `space`, which
// says whether their order descends; `shards_max` bounds the shards.
DrawnOptions DrawDatabase(const KeySpace& space, int shards_max, Random* random);

// The same database opened another way: sizes, threads, schedules and places are drawn anew.
DrawnOptions DrawReopening(const DrawnOptions& before, Random* random);

}  // namespace dlsm::stress
