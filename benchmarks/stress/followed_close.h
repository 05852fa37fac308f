// What followers must show of a database that its owner has closed well: everything that was
// acknowledged. While the owner lives, what it publishes may be behind by any time; its end is not.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "benchmarks/stress/expected_state.h"
#include "benchmarks/stress/key_space.h"
#include "benchmarks/stress/worker.h"
#include "dLSM/db.h"
#include "dLSM/status.h"
#include "util/random.h"

namespace dlsm::stress {

// Of one closing of a database whose owner publishes. One thread, while no other uses the owner.
class FollowedClose {
 public:
  using OpenFollower = std::function<Status(std::unique_ptr<DB>* follower)>;
  // `space` and `state` outlive this.
  FollowedClose(uint64_t seed, const KeySpace* space, ExpectedState* state, OpenFollower open);

  // Before the owner closes: lets a follower see what is published, then writes something that this
  // follower can only have once it has moved on.
  Status Begin(DB* owner);
  // After it has: the follower must move on to the end, and one that comes now must see it as well.
  // Corruption if either does not.
  Status End();

 private:
  Status ExpectAll(DB* follower);

  const KeySpace* const space_;
  ExpectedState* const state_;
  const OpenFollower open_;
  Random random_;
  Worker worker_;
  std::unique_ptr<DB> before_;  // None where nothing was published yet.
};

}  // namespace dlsm::stress
