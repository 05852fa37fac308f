// The manifest of a shard whose tables are on several memory nodes: it is kept at the shard's home,
// and each of the others is told which of its spans are live.
//
// Whatever is cut short, the manifest at the home refers to nothing that could have been given
// back:
//
//   1. Each other node that gets new tables is told, before: what is live there is what was, and
//      the new ones.
//   2. The manifest is put at the home. From here on it is the new one.
//   3. Lists that name more than it refers to are cut down before frees of that node are sent
//      (BeforeFrees), and when the shard is opened again.
//
// A put at the home that fails may have been taken all the same, now or later: until one succeeds,
// what the failed ones refer to stays live, and nothing of the other nodes is given back. Where no
// other put comes, EndDoubt puts the last one that was taken once more.
//
// Until the home has taken a manifest nothing of the other nodes is given back, and no list is cut
// down: another may have become the owner there since this one's manifest was loaded, and have put
// one that names more of what the lists name. Each node has an owner of its own, so that the others
// take calls proves nothing.
//
// A node that does not answer is waited for only by who has new tables there, and by its frees; the
// home by who puts a manifest. Frees of the others are refused while it does not answer.
//
// What the list is, is also the manifest at those nodes (LiveList): the next open finds there what
// nothing refers to any more, and frees it once a manifest has been put.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/slice.h"
#include "db/nodes/manifest_store.h"
#include "port/mutex.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

// What a node that is not the home keeps instead of a manifest.
//
//   fixed32 CRC32C of all that follows, fixed32 format version
//   varint32 span count; for each: varint32 node, varint32 region, varint64 offset, varint64 bytes
struct LiveList {
  std::vector<RemoteSpan> spans;

  std::string Encode() const;
  // Bytes come from another machine.
  Status Decode(const Slice& bytes);
};

// Thread-safe.
class PlacedManifestStore final : public ManifestStore {
 public:
  // `home` outlives this.
  explicit PlacedManifestStore(ManifestStore* home) : home_(home) {}
  // These before anything is put. `at`, which outlives this, takes the lists of `node`, which is
  // not the home; `told`: what its list may name now.
  void AddNode(NodeId node, ManifestStore* at, const std::vector<RemoteSpan>& told);
  // IOError if the list of its node does not name a span that the manifest refers to: the memory of
  // that node is lost.
  Status CheckTold(const RemoteSpan& span) LOCKS_EXCLUDED(mutex_);
  // The manifest that was loaded refers to this. Returns what lists name beyond that: nobody's.
  std::vector<RemoteSpan> NoteLoaded(const std::vector<RemoteSpan>& live) LOCKS_EXCLUDED(mutex_);
  // Called when one of these nodes could not be told.
  void SetUnreachable(std::function<void(NodeId)> unreachable) {
    unreachable_ = std::move(unreachable);
  }

  // If it fails, the manifest that is in force may be this one or the one before.
  Status Put(const std::string& manifest, std::vector<RemoteSpan> live) override
      LOCKS_EXCLUDED(putting_, mutex_);

  // Sees to it that neither the list of `node` nor a manifest that may be in force names what had
  // left the manifest, or failed to enter it, before this call. An error: frees have to wait; Busy:
  // until it is known which manifest is in force. Calls no other node.
  Status BeforeFrees(NodeId node) LOCKS_EXCLUDED(mutex_);

  // If it is not known which manifest is in force, puts the last one that was taken once more.
  Status EndDoubt() LOCKS_EXCLUDED(putting_, mutex_);
  // The same, unless a manifest is being put: who puts one may wait for any node, but this waits
  // for the home alone.
  Status TryEndDoubt() LOCKS_EXCLUDED(putting_, mutex_);

 private:
  // By region and offset. Of one node, and of tables that do not overlap.
  using Spans = std::map<std::pair<uint32_t, uint64_t>, RemoteSpan>;

  struct Node {
    Node(NodeId node, ManifestStore* store) : id(node), at(store) {}

    const NodeId id;
    ManifestStore* const at;
    // One call to the node at a time. Taken after putting_ and before mutex_.
    port::Mutex calling;
    // These are guarded by mutex_.
    Spans live;          // Of the last manifest that was taken.
    Spans maybe;         // Of those whose put has failed since.
    Spans coming;        // Of the one that is being put.
    Spans told;          // What its list names, whichever of its calls have been taken.
    bool exact = false;  // The list names no more.
  };

  static void Add(const RemoteSpan& span, Spans* to);
  // Tells the node what is live, has been or may become so.
  Status Tell(Node* node) EXCLUSIVE_LOCKS_REQUIRED(node->calling) LOCKS_EXCLUDED(mutex_);
  Status TellNew(Node* node) LOCKS_EXCLUDED(mutex_);
  Status TellOthers(const std::vector<RemoteSpan>& live, std::vector<RemoteSpan>* at_home)
      LOCKS_EXCLUDED(mutex_);
  // What was to come does not.
  void DropComing() LOCKS_EXCLUDED(mutex_);
  Status PutAtHome(const std::string& manifest, const std::vector<RemoteSpan>& live)
      EXCLUSIVE_LOCKS_REQUIRED(putting_) LOCKS_EXCLUDED(mutex_);
  Status EndDoubtLocked() EXCLUSIVE_LOCKS_REQUIRED(putting_) LOCKS_EXCLUDED(mutex_);
  void Settle(bool taken) LOCKS_EXCLUDED(mutex_);
  bool InDoubt() LOCKS_EXCLUDED(mutex_);
  bool HasTaken() LOCKS_EXCLUDED(mutex_);
  Node* Find(NodeId id) const;

  ManifestStore* const home_;
  std::function<void(NodeId)> unreachable_;
  std::vector<std::unique_ptr<Node>> nodes_;  // Constant once something has been put.

  port::Mutex putting_;  // One manifest at a time. Taken before all others.
  // The last one that was taken, and what of it is at the home; if there are other nodes.
  std::string manifest_ GUARDED_BY(putting_);
  std::vector<RemoteSpan> at_home_ GUARDED_BY(putting_);

  port::Mutex mutex_;                      // Of the nodes' spans; never held across a call.
  bool taken_ GUARDED_BY(mutex_) = false;  // Any manifest, by the home.
};

}  // namespace dlsm
