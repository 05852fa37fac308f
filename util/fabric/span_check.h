// What is wrong with a request before any fabric looks at it.
#pragma once

#include <cstdint>

#include "dLSM/status.h"
#include "util/fabric/region_table.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

// The regions of one memory node as a queue pair sees them.
class SpanCheck {
 public:
  SpanCheck(NodeId node, const RegionTable& regions) : node_(node), regions_(regions) {}

  // Set *found to the region that holds `remote`.
  Status Transfer(const RemoteSpan& remote, const LocalSpan& local,
                  const MappedRegion** found) const {
    if (remote.bytes != local.bytes) [[unlikely]]
      return SizesDiffer(remote, local);
    return Locate(remote, found);
  }
  Status Atomic(const RemoteSpan& word, const MappedRegion** found) const {
    if (word.bytes != kAtomicWordBytes || !IsAtomicWord(word.offset)) [[unlikely]] {
      return NotAWord(word);
    }
    return Locate(word, found);
  }
  Status Locate(const RemoteSpan& remote, const MappedRegion** found) const {
    if (remote.node != node_) [[unlikely]]
      return OtherNode(remote);
    *found = regions_.Find(remote.region, remote.offset, remote.bytes);
    if (*found == nullptr) [[unlikely]]
      return regions_.WhyNot(remote);
    return Status::OK();
  }

 private:
  static Status SizesDiffer(const RemoteSpan& remote, const LocalSpan& local);
  static Status NotAWord(const RemoteSpan& word);
  Status OtherNode(const RemoteSpan& remote) const;

  const NodeId node_;
  const RegionTable& regions_;
};

}  // namespace dlsm
