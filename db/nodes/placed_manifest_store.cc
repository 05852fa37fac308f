#include "db/nodes/placed_manifest_store.h"

#include <algorithm>
#include <utility>

#include "util/checksum.h"
#include "util/coding.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr uint32_t kFormatVersion = 1;

Status MalformedLiveList(const char* what) {
  return Status::Corruption("malformed list of a shard's tables", what);
}

Status Lost(NodeId node) {
  return Status::IOError("memory node " + std::to_string(static_cast<uint32_t>(node)) +
                             " does not have all of the database's tables, its memory is lost",
                         "destroy the database and fill it again");
}

}  // namespace

std::string LiveList::Encode() const {
  std::string body;
  PutFixed32(&body, kFormatVersion);
  PutVarint32(&body, static_cast<uint32_t>(spans.size()));
  for (const RemoteSpan& span : spans) {
    PutVarint32(&body, static_cast<uint32_t>(span.node));
    PutVarint32(&body, static_cast<uint32_t>(span.region));
    PutVarint64(&body, span.offset);
    PutVarint64(&body, span.bytes);
  }
  std::string bytes;
  PutFixed32(&bytes, Crc32c(body.data(), body.size()));
  return bytes + body;
}

Status LiveList::Decode(const Slice& bytes) {
  Slice from = bytes;
  uint32_t checksum;
  uint32_t format;
  uint32_t count;
  if (!GetFixed32(&from, &checksum)) return MalformedLiveList("too short");
  if (checksum != Crc32c(from.data(), from.size())) return MalformedLiveList("checksum mismatch");
  if (!GetFixed32(&from, &format) || format != kFormatVersion)
    return MalformedLiveList("format version");
  // A span takes at least four bytes, which bounds the loop by the input.
  if (!GetVarint32(&from, &count) || count > from.size()) return MalformedLiveList("count");
  std::vector<RemoteSpan> decoded;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t node;
    uint32_t region;
    RemoteSpan span;
    if (!GetVarint32(&from, &node) || !GetVarint32(&from, &region) ||
        !GetVarint64(&from, &span.offset) || !GetVarint64(&from, &span.bytes)) {
      return MalformedLiveList("span");
    }
    span.node = NodeId{node};
    span.region = RegionId{region};
    decoded.push_back(span);
  }
  if (!from.empty()) return MalformedLiveList("trailing bytes");
  spans = std::move(decoded);
  return Status::OK();
}

void PlacedManifestStore::AddNode(NodeId node, ManifestStore* at,
                                  const std::vector<RemoteSpan>& told) {
  nodes_.push_back(std::make_unique<Node>(node, at));
  port::MutexLock lock(mutex_);
  for (const RemoteSpan& span : told) Add(span, &nodes_.back()->told);
}

Status PlacedManifestStore::CheckTold(const RemoteSpan& span) {
  Node* const node = Find(span.node);
  if (node == nullptr) return Status::OK();  // At the home, or unknown to those who read it.
  port::MutexLock lock(mutex_);
  const auto told = node->told.find({static_cast<uint32_t>(span.region), span.offset});
  return told != node->told.end() && told->second == span ? Status::OK() : Lost(node->id);
}

std::vector<RemoteSpan> PlacedManifestStore::NoteLoaded(const std::vector<RemoteSpan>& live) {
  port::MutexLock lock(mutex_);
  for (const RemoteSpan& span : live) {
    if (Node* const node = Find(span.node); node != nullptr) Add(span, &node->live);
  }
  std::vector<RemoteSpan> unused;
  for (const auto& node : nodes_) {
    for (const auto& [place, span] : node->told) {
      if (!node->live.contains(place)) unused.push_back(span);
    }
  }
  return unused;
}

void PlacedManifestStore::Add(const RemoteSpan& span, Spans* to) {
  to->insert_or_assign({static_cast<uint32_t>(span.region), span.offset}, span);
}

PlacedManifestStore::Node* PlacedManifestStore::Find(NodeId id) const {
  const auto found =
      std::find_if(nodes_.begin(), nodes_.end(), [id](const auto& node) { return node->id == id; });
  return found == nodes_.end() ? nullptr : found->get();
}

// A call that fails may be taken all the same, so until one succeeds the list is known only as far
// as all of them agree.
Status PlacedManifestStore::Tell(Node* node) {
  Spans spans;
  LiveList list;
  {
    port::MutexLock lock(mutex_);
    spans = node->live;
    spans.insert(node->maybe.begin(), node->maybe.end());
    spans.insert(node->coming.begin(), node->coming.end());
    std::erase_if(node->told, [&spans](const auto& each) { return !spans.contains(each.first); });
    node->exact = false;
  }
  for (const auto& [place, span] : spans) list.spans.push_back(span);
  std::string encoded;
  DLSM_RETURN_IF_ERROR(WithinMemory([&] {  // Up to megabytes.
    encoded = list.Encode();
    return Status::OK();
  }));
  const Status put = node->at->Put(encoded, std::move(list.spans));
  if (!put.ok()) {
    if (unreachable_ && (put.IsIOError() || put.IsTimedOut())) unreachable_(node->id);
    return Status::FromCode(put.code(), "memory node " +
                                            std::to_string(static_cast<uint32_t>(node->id)) +
                                            ", which gets tables: " + put.message().ToString());
  }
  port::MutexLock lock(mutex_);
  node->told = std::move(spans);
  // A manifest that was taken meanwhile may name less.
  node->exact = std::all_of(node->told.begin(), node->told.end(), [node](const auto& each) {
    return node->live.contains(each.first) || node->maybe.contains(each.first) ||
           node->coming.contains(each.first);
  });
  return Status::OK();
}

Status PlacedManifestStore::TellNew(Node* node) {
  const auto knows_all = [this, node] {
    port::MutexLock lock(mutex_);
    return std::all_of(node->coming.begin(), node->coming.end(),
                       [node](const auto& each) { return node->told.contains(each.first); });
  };
  if (knows_all()) return Status::OK();
  port::MutexLock calling(node->calling);
  return knows_all() ? Status::OK() : Tell(node);
}

Status PlacedManifestStore::Put(const std::string& manifest, std::vector<RemoteSpan> live) {
  port::MutexLock putting(putting_);
  std::vector<RemoteSpan> at_home;
  const Status told = TellOthers(live, &at_home);
  if (told.ok()) return PutAtHome(manifest, at_home);
  DropComing();
  return told;
}

// *at_home: those of `live` that are on none of them.
Status PlacedManifestStore::TellOthers(const std::vector<RemoteSpan>& live,
                                       std::vector<RemoteSpan>* at_home) {
  {
    port::MutexLock lock(mutex_);
    for (const RemoteSpan& span : live) {
      if (Node* const node = Find(span.node); node != nullptr) {
        Add(span, &node->coming);
      } else {
        at_home->push_back(span);
      }
    }
  }
  for (const auto& node : nodes_) DLSM_RETURN_IF_ERROR(TellNew(node.get()));
  return Status::OK();
}

// Some may have been told of tables that are not to come.
void PlacedManifestStore::DropComing() {
  port::MutexLock lock(mutex_);
  for (const auto& each : nodes_) {
    each->coming.clear();
    each->exact = each->exact && each->told.size() == each->live.size();
  }
}

// The copies, which are as large as a manifest, are made before the put begins.
Status PlacedManifestStore::PutAtHome(const std::string& manifest,
                                      const std::vector<RemoteSpan>& live) {
  std::string manifest_then;
  std::vector<RemoteSpan> at_home_then;
  const Status copied = WithinMemory([&] {
    if (nodes_.empty()) return Status::OK();
    manifest_then = manifest;
    at_home_then = live;
    return Status::OK();
  });
  if (!copied.ok()) {
    DropComing();
    return copied;
  }
  const Status put = home_->Put(manifest, live);
  Settle(put.ok());
  if (put.ok() && !nodes_.empty()) {
    manifest_.swap(manifest_then);
    at_home_.swap(at_home_then);
  }
  return put;
}

void PlacedManifestStore::Settle(bool taken) {
  port::MutexLock lock(mutex_);
  taken_ = taken_ || taken;
  for (const auto& node : nodes_) {
    Spans coming = std::exchange(node->coming, Spans());
    if (taken) {
      node->live = std::move(coming);
      node->maybe.clear();
    } else {
      node->maybe.merge(coming);
    }
    node->exact = node->exact && node->told.size() == node->live.size() && node->maybe.empty();
  }
}

bool PlacedManifestStore::InDoubt() {
  port::MutexLock lock(mutex_);
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const auto& node) { return !node->maybe.empty(); });
}

bool PlacedManifestStore::HasTaken() {
  port::MutexLock lock(mutex_);
  return taken_;
}

Status PlacedManifestStore::EndDoubt() {
  if (!InDoubt()) return Status::OK();
  port::MutexLock putting(putting_);
  return EndDoubtLocked();
}

Status PlacedManifestStore::TryEndDoubt() {
  if (!InDoubt() || !putting_.TryLock()) return Status::OK();
  const port::AdoptedLock putting(putting_);
  return EndDoubtLocked();
}

Status PlacedManifestStore::EndDoubtLocked() {
  if (!InDoubt() || manifest_.empty()) return Status::OK();  // Empty: the open fails.
  const std::string* const last = &manifest_;  // A lambda is not known to hold the lock.
  const std::vector<RemoteSpan>* const last_at_home = &at_home_;
  std::string manifest;
  std::vector<RemoteSpan> at_home;
  DLSM_RETURN_IF_ERROR(WithinMemory([&] {
    manifest = *last;
    at_home = *last_at_home;
    return Status::OK();
  }));
  {
    port::MutexLock lock(mutex_);
    for (const auto& each : nodes_) each->coming = each->live;
  }
  return PutAtHome(manifest, at_home);
}

Status PlacedManifestStore::BeforeFrees(NodeId id) {
  Node* const node = Find(id);
  if (node == nullptr) return Status::OK();  // The home's list comes with its manifest.
  if (!HasTaken()) {
    return Status::Busy("the home of these tables has not taken a manifest of this handle",
                        "memory of other memory nodes is given back once it has");
  }
  if (InDoubt()) {
    return Status::Busy("which manifest is in force is not known: the last one could not be put",
                        "memory of other memory nodes is given back once one has been");
  }
  port::MutexLock calling(node->calling);
  {
    port::MutexLock lock(mutex_);
    if (node->exact) return Status::OK();
  }
  return Tell(node);
}

}  // namespace dlsm
