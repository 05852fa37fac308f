// Who has asked for memory in vain lately: those who could give some back are told. Some of what a
// database has is of no use to anybody, and nobody but its owner can tell.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "port/clock.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

// One thread at a time: the caller locks.
class RecentRefusals {
 public:
  using Clock = port::Clock;

  // Longer than heartbeats are apart, so that everybody hears of it; who is still without memory
  // asks again ten times a second.
  static constexpr auto kLately = std::chrono::seconds(2);

  // `short_of`: what there was too little of, the memory of this memory node or what an owner's
  // quota leaves. By name; any will do.
  void Note(const std::string& short_of, SessionId asked, Clock::time_point now) {
    std::erase_if(refusals_, [now](const auto& each) { return each.second.until <= now; });
    Refusals& refusals = refusals_[short_of];
    if (refusals.asked_last != asked) {
      refusals.others_until = refusals.until;
      refusals.asked_last = asked;
    }
    refusals.until = now + kLately;
  }

  // Whether somebody else than this session has.
  bool OfOthers(const std::string& short_of, SessionId session, Clock::time_point now) const {
    const auto found = refusals_.find(short_of);
    if (found == refusals_.end()) return false;
    const Refusals& refusals = found->second;
    return now < (session == refusals.asked_last ? refusals.others_until : refusals.until);
  }

 private:
  struct Refusals {
    SessionId asked_last{};
    Clock::time_point until = Clock::time_point::min();
    Clock::time_point others_until = Clock::time_point::min();  // Of all but the last one.
  };
  std::map<std::string, Refusals> refusals_;
};

}  // namespace dlsm
