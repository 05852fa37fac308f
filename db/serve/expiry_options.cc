#include "db/serve/expiry_options.h"

#include <fmt/core.h>

#include <limits>

#include "db/serve/keys.h"

namespace dlsm::serve {
namespace {

bool IsSeconds(ExpiryUnit unit) {
  return unit == ExpiryUnit::kSeconds || unit == ExpiryUnit::kSecondsSinceEpoch;
}
bool IsFromNow(ExpiryUnit unit) {
  return unit == ExpiryUnit::kSeconds || unit == ExpiryUnit::kMilliseconds;
}

bool Invalid(const Call& call) {
  call.reply.Error(fmt::format("ERR invalid expire time in '{}' command", call.command.name));
  return false;
}

bool ToMilliseconds(const Call& call, int64_t number, ExpiryUnit unit, ExpiryTime* expiry) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kPerSecond = 1000;
  if (IsSeconds(unit)) {
    if (number > kMost / kPerSecond || number < -(kMost / kPerSecond)) return Invalid(call);
    number *= kPerSecond;
  }
  if (IsFromNow(unit)) {
    if (number > kMost - call.round.now()) return Invalid(call);
    number += call.round.now();
  }
  *expiry = number;
  return true;
}

}  // namespace

bool ParseExpiryUnit(const Call& call, size_t i, ExpiryUnit* unit) {
  if (call.Is(i, "ex")) {
    *unit = ExpiryUnit::kSeconds;
  } else if (call.Is(i, "px")) {
    *unit = ExpiryUnit::kMilliseconds;
  } else if (call.Is(i, "exat")) {
    *unit = ExpiryUnit::kSecondsSinceEpoch;
  } else if (call.Is(i, "pxat")) {
    *unit = ExpiryUnit::kMillisecondsSinceEpoch;
  } else {
    return false;
  }
  return true;
}

bool ParseExpiry(const Call& call, const Slice& text, ExpiryUnit unit, ExpiryTime* expiry) {
  int64_t number = 0;
  if (!ParseInteger(text, &number)) {
    call.reply.Error(kNotAnInteger);
    return false;
  }
  return number > 0 ? ToMilliseconds(call, number, unit, expiry) : Invalid(call);
}

bool ParseAnyExpiry(const Call& call, const Slice& text, ExpiryUnit unit, ExpiryTime* expiry) {
  int64_t number = 0;
  if (!ParseInteger(text, &number)) {
    call.reply.Error(kNotAnInteger);
    return false;
  }
  return ToMilliseconds(call, number, unit, expiry);
}

}  // namespace dlsm::serve
