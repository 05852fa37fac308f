// Times at which keys expire, as SET, GETEX and EXPIRE take them.
#pragma once

#include "dLSM/slice.h"
#include "db/serve/command.h"
#include "db/serve/records.h"

namespace dlsm::serve {

enum class ExpiryUnit { kSeconds, kMilliseconds, kSecondsSinceEpoch, kMillisecondsSinceEpoch };

// Whether argument i is EX, PX, EXAT or PXAT.
bool ParseExpiryUnit(const Call& call, size_t i, ExpiryUnit* unit);
// False: `text` is no time that a key may expire at, and this has been answered. The command takes
// only times after the begin of the epoch.
bool ParseExpiry(const Call& call, const Slice& text, ExpiryUnit unit, ExpiryTime* expiry);
// Likewise, of a command that takes times that have passed, too.
bool ParseAnyExpiry(const Call& call, const Slice& text, ExpiryUnit unit, ExpiryTime* expiry);

}  // namespace dlsm::serve
