#include "util/fabric/region_table.h"

#include <fmt/core.h>

namespace dlsm {

Status RegionTable::WhyNot(const RemoteSpan& span) const {
  const auto id = static_cast<uint32_t>(span.region);
  for (const MappedRegion& region : regions_) {
    if (region.id != span.region) continue;
    return Status::InvalidArgument(
        fmt::format("{} bytes at offset {} are not inside region {} of memory node {}, which has "
                    "{} bytes",
                    span.bytes, span.offset, id, static_cast<uint32_t>(span.node), region.bytes));
  }
  return Status::InvalidArgument(
      fmt::format("memory node {} has no region {}", static_cast<uint32_t>(span.node), id));
}

}  // namespace dlsm
