// What a reader holds: memtables and version together, one immutable object that is replaced in one
// step, so that a memtable never disappears before its table is visible.
#pragma once

#include <memory>
#include <vector>

#include "db/memtable/memtable.h"
#include "db/memtable/sequencer.h"
#include "db/tree/succession.h"
#include "db/tree/version.h"

namespace dlsm {

struct ReadView : std::enable_shared_from_this<ReadView> {
  std::shared_ptr<Memtable> active;
  std::vector<std::shared_ptr<Memtable>> immutables;  // Newest first.
  std::shared_ptr<const Version> version;
  // The number of entries that are in tables, but not in the version yet (Tree::SwitchForIngest);
  // 0: there are none. A read as of this number or a later one waits for the next view.
  SequenceNumber awaits = 0;

  bool Complete(SequenceNumber as_of) const { return awaits == 0 || as_of < awaits; }
};

using ReadViews = Succession<ReadView>;

}  // namespace dlsm
