#include "benchmarks/stress/followed_close.h"

#include <utility>
#include <vector>

#include "util/status_macros.h"

namespace dlsm::stress {
namespace {

// A lease may end while all keys are being read, again and again only where something is wrong.
constexpr int kAttemptsMax = 20;

Status With(const char* who, const Status& status) {
  return status.ok() ? status
                     : Status::FromCode(status.code(), std::string(who) + " the owner's end: " +
                                                           status.message().ToString());
}

}  // namespace

FollowedClose::FollowedClose(uint64_t seed, const KeySpace* space, ExpectedState* state,
                             OpenFollower open)
    : space_(space),
      state_(state),
      open_(std::move(open)),
      random_(seed),
      worker_(Worker::Config{0, 1, seed}, space, state) {}

Status FollowedClose::Begin(DB* owner) {
  const Status opened = open_(&before_);
  if (!opened.ok() && !opened.IsBusy()) return With("a follower before", opened);
  const uint64_t group = 2 * random_.Uniform((space_->groups() + 1) / 2);
  return With("the write before", worker_.RewriteGroup(owner, group));
}

Status FollowedClose::End() {
  if (before_ != nullptr)
    DLSM_RETURN_IF_ERROR(With("a follower from before", ExpectAll(before_.get())));
  std::unique_ptr<DB> after;
  Status status = open_(&after);
  if (status.ok()) status = ExpectAll(after.get());
  return With("a follower that came after", status);
}

Status FollowedClose::ExpectAll(DB* follower) {
  std::vector<uint32_t> floor = state_->AllAcknowledged();
  Status status;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    status = follower->TryCatchUp();
    if (status.ok()) status = worker_.VerifyFollower(follower, &floor);
    if (!status.IsTimedOut()) break;
  }
  DLSM_RETURN_IF_ERROR(status);
  return follower->Close();
}

}  // namespace dlsm::stress
