// What followers, and who takes a database over, do with it and its owner with them, step by step
// with faults (fail_nth_testing.h).
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "db/test/faults/fail_nth_testing.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

void Publish(Options* options) { options->publish_interval_ms = 5; }

Options FollowerOptions(Options options) {
  options.publish_interval_ms = 0;
  options.follow_interval_ms = 0;
  return options;
}

// Until the follower shows this. Rests in between: each look is an operation that may fail, and
// there shall be an end to them.
Status CatchUpTo(DB* follower, const std::string& key, const std::string& value) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < until) {
    DLSM_RETURN_IF_ERROR(follower->TryCatchUp());
    std::string found;
    const Status status = follower->Get(ReadOptions(), key, &found);
    if (!status.ok() && !status.IsNotFound()) return status;
    if (status.ok() && found == value) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Status::NotFound("the follower does not get on", key);
}

// The owner is well.
Status FillWithOwner(FaultWorld* world) {
  DLSM_RETURN_IF_ERROR(DB::Open(world->CleanOptions(), world->name(), &world->db()));
  DLSM_RETURN_IF_ERROR(world->keys().PutAll(world->db().get()));
  DLSM_RETURN_IF_ERROR(world->db()->Flush(FlushOptions()));
  return world->db()->Put(WriteOptions(), VersionedKeys::kMark, "1");
}

TEST_P(FailNthTest, OpenFollower) {
  FailEach({.prepare = FillWithOwner,
            .attempt =
                [](FaultWorld* world) {
                  if (world->other() != nullptr) return Status::OK();
                  DLSM_RETURN_IF_ERROR(DB::OpenFollower(FollowerOptions(world->options()),
                                                        world->name(), &world->other()));
                  const Status status = CatchUpTo(world->other().get(), VersionedKeys::kMark, "1");
                  // What could not be told ends with its lease.
                  world->other()->Close().PermitUncheckedError();
                  world->other().reset();
                  return status;
                },
            .change = Publish});
}

TEST_P(FailNthTest, TryCatchUp) {
  FailEach({.prepare =
                [](FaultWorld* world) {
                  DLSM_RETURN_IF_ERROR(FillWithOwner(world));
                  return DB::OpenFollower(FollowerOptions(world->options()), world->name(),
                                          &world->other());
                },
            .attempt =
                [](FaultWorld* world) {
                  return CatchUpTo(world->other().get(), VersionedKeys::kMark, "1");
                },
            .change = Publish});
}

// The follower is well; what the owner publishes is not.
TEST_P(FailNthTest, Publication) {
  FailEach(
      {.prepare = Fill,
       .attempt =
           [](FaultWorld* world) {
             static int marks = 0;
             const std::string mark = std::to_string(++marks);
             DLSM_RETURN_IF_ERROR(world->db()->Put(WriteOptions(), VersionedKeys::kMark, mark));
             std::unique_ptr<DB> follower;
             DLSM_RETURN_IF_ERROR(DB::OpenFollower(FollowerOptions(world->CleanOptions()),
                                                   world->name(), &follower));
             DLSM_RETURN_IF_ERROR(CatchUpTo(follower.get(), VersionedKeys::kMark, mark));
             return follower->Close();
           },
       .change = Publish},
      kWriteFaults);
}

TEST_P(FailNthTest, TakeOver) {
  FailEach(
      {.prepare =
           [](FaultWorld* world) {
             DLSM_RETURN_IF_ERROR(DB::Open(world->CleanOptions(), world->name(), &world->other()));
             DLSM_RETURN_IF_ERROR(world->keys().PutAll(world->other().get()));
             return world->other()->Flush(FlushOptions());
           },
       .attempt =
           [](FaultWorld* world) {
             if (world->db() != nullptr) return Status::OK();
             Options options = world->options();
             options.take_over = true;
             return DB::Open(options, world->name(), &world->db());
           }},
      kWriteFaults);
}

}  // namespace
}  // namespace dlsm
