#include "db/follow/followed_database.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "db/nodes/compute_range.h"
#include "port/clock.h"
#include "util/checksum.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

Status Unpublished(const std::string& name, const char* what) {
  return Status::Busy("database " + name + what,
                      "open it for writing with Options::publish_interval_ms");
}

// A table keeps its number as long as it lives; what its number is used for again lies elsewhere,
// or was made by another owner.
using TableKey = std::tuple<size_t, uint64_t, NodeId, uint64_t, uint64_t, SequenceNumber>;
TableKey KeyOf(size_t shard, const TableMeta& meta) {
  return {
      shard, meta.number, meta.image.node, meta.image.offset, meta.image.bytes, meta.sequence_max};
}

}  // namespace

FollowedPublication::~FollowedPublication() {
  if (number != 0) database->EndUse(number);
}

Reads::Source FollowedPublication::SourceOf(size_t shard) const {
  return {&database->reader(), views[shard].get()};
}

std::vector<ShardView> FollowedPublication::ViewsOf(const std::vector<size_t>& shards) const {
  std::vector<ShardView> of_shards;
  of_shards.reserve(shards.size());
  for (const size_t shard : shards) {
    of_shards.push_back({views[shard], &database->queue_pairs()});
  }
  return of_shards;
}

FollowedDatabase::FollowedDatabase(const FollowerContext& context)
    : context_(context),
      tables_(TableStoreConfigOf(*context.options, *context.objects), &queue_pairs_,
              /*memory=*/nullptr, context.statistics),
      reader_(&sequencer_, &queue_pairs_, context.statistics),
      no_memtable_(std::make_shared<Memtable>(context.comparator, 0, Slice())) {}

FollowedDatabase::~FollowedDatabase() {
  for (const auto& node : nodes_) node->Stop(/*close=*/false);  // They ask for what is in use.
}

Status FollowedDatabase::Open(const FollowerContext& context, Deadline deadline,
                              FollowedPublicationRef* publication) {
  constexpr auto kLookAgain = std::chrono::milliseconds(50);
  std::shared_ptr<FollowedDatabase> database(new FollowedDatabase(context));
  const Status opened = WithinMemory([&] {
    DLSM_RETURN_IF_ERROR(database->OpenHome());
    Status status = database->TryOpen(publication);
    while (status.IsBusy() && !deadline.Passed()) {
      port::SleepFor(kLookAgain);
      status = database->TryOpen(publication);
    }
    return status;
  });
  // Else memory would be kept until the leases end, for a reader that never was.
  if (!opened.ok()) database->Close();
  return opened;
}

Status FollowedDatabase::OpenHome() {
  const Options& options = *context_.options;
  std::vector<std::string> nodes;
  DLSM_RETURN_IF_ERROR(MemoryNodesOf(options, &nodes));
  std::unique_ptr<FollowedNode> home;
  const Status opened = FollowedNode::Open(options, nodes[options.compute_node_id % nodes.size()],
                                           {context_.name}, context_.idle, &home);
  if (opened.IsNotFound()) {
    return Status::NotFound(opened.message(),
                            "name the memory nodes as the database's owner does, in the same "
                            "order, and give the owner's compute_node_id");
  }
  DLSM_RETURN_IF_ERROR(opened);
  return AddNode(std::move(home));
}

Status FollowedDatabase::AddNode(std::unique_ptr<FollowedNode> node) {
  MemoryNodeLink& link = node->link();
  if (NodeOf(link.peer().node) != nullptr) {
    return Status::InvalidArgument("two memory nodes have the number " +
                                       std::to_string(static_cast<uint32_t>(link.peer().node)),
                                   "start each Server with a NODEID of its own");
  }
  // What is renewed before a publication is in use keeps everything.
  const Status started = node->Start([this] { return OldestInUse(); });
  // Also one that did not start: it has a reader to be closed.
  queue_pairs_.Add(link.peer().node, &link.queue_pairs());
  nodes_.push_back(std::move(node));
  return started;
}

FollowedNode* FollowedDatabase::NodeOf(NodeId id) const {
  for (const auto& node : nodes_) {
    if (node->link().peer().node == id) return node.get();
  }
  return nullptr;
}

// A publication may be used if its number was read after all the readers had been taken up that it
// needs, and none of its memory was freed before that.
Status FollowedDatabase::TryOpen(FollowedPublicationRef* publication) {
  Publication read;
  while (true) {
    uint64_t number;
    DLSM_RETURN_IF_ERROR(ReadNumber(&number));
    const Status found = number == 0 ? Status::NotFound("no number") : ReadImage(number, &read);
    if (found.IsNotFound()) {
      return Unpublished(context_.name, " has not been published since it was opened for writing");
    }
    DLSM_RETURN_IF_ERROR(found);
    if (Covers(read)) break;
    DLSM_RETURN_IF_ERROR(Cover(read));
  }
  for (const auto& node : nodes_) {
    if (read.number < node->whole_from()) {
      DLSM_RETURN_IF_ERROR(node->Cover({}));
      return Unpublished(context_.name, "'s last publication is no longer whole");
    }
  }
  return OpenPublication(read, /*before=*/nullptr, publication);
}

Status FollowedDatabase::ReadNumber(uint64_t* number) {
  const RemoteSpan& header = nodes_.front()->header();
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(queue_pairs_.ForThisThread(header.node, &queue_pair));
  return PublicationBoard(queue_pair, header, Deadline::In(tables_.timeout())).ReadNumber(number);
}

Status FollowedDatabase::ReadImage(uint64_t number, Publication* publication) {
  const RemoteSpan& header = nodes_.front()->header();
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(queue_pairs_.ForThisThread(header.node, &queue_pair));
  PublicationSlot slot;
  DLSM_RETURN_IF_ERROR(PublicationBoard(queue_pair, header, Deadline::In(tables_.timeout()))
                           .ReadSlot(number, &slot));
  const RemoteSpan& image = slot.image;
  if (image.bytes == 0) return Status::NotFound("no image");
  if (image.node != header.node) return Status::Corruption("malformed publication", "its node");
  RegisteredBuffer buffer;
  Ticket ticket;
  DLSM_RETURN_IF_ERROR(queue_pairs_.NewBuffer(image.node, image.bytes, &buffer));
  DLSM_RETURN_IF_ERROR(queue_pair->PostRead(image, buffer.span().Sub(0, image.bytes),
                                            Purpose::kPublication, &ticket));
  DLSM_RETURN_IF_ERROR(queue_pair->Wait(ticket, Deadline::In(tables_.timeout())));
  const Slice bytes(buffer.data(), image.bytes);
  // Before a reader for all of it was taken up, its memory may have gone to others.
  if (slot.image_checksum != Crc32c(bytes.data(), bytes.size())) {
    return Unpublished(context_.name, "'s last publication is no longer whole");
  }
  DLSM_RETURN_IF_ERROR(publication->Decode(bytes));
  if (publication->number != number) {
    return Status::Corruption("malformed publication", "it is another one");
  }
  return Status::OK();
}

bool FollowedDatabase::Covers(const Publication& publication) const {
  return std::all_of(publication.places.begin(), publication.places.end(),
                     [this](const Publication::Place& place) {
                       const FollowedNode* node = NodeOf(place.id);
                       return node != nullptr && node->Has(place.contents) &&
                              node->Covers(place.databases);
                     });
}

Status FollowedDatabase::Cover(const Publication& publication) {
  for (const Publication::Place& place : publication.places) {
    FollowedNode* const node = NodeOf(place.id);
    if (node != nullptr) {
      if (!node->Has(place.contents)) {
        return Status::IOError(
            "memory node " + place.node + " has got other contents while it was followed",
            "open the follower again");
      }
      if (!node->Covers(place.databases)) DLSM_RETURN_IF_ERROR(node->Cover(place.databases));
      continue;
    }
    std::unique_ptr<FollowedNode> added;
    DLSM_RETURN_IF_ERROR(FollowedNode::Open(*context_.options, place, context_.idle, &added));
    if (added->link().peer().node != place.id) {
      return Status::InvalidArgument("memory node " + place.node +
                                         " is not the one that the owner "
                                         "of database " +
                                         context_.name + " knows by that name",
                                     "give both the same addresses");
    }
    DLSM_RETURN_IF_ERROR(AddNode(std::move(added)));
  }
  return Status::OK();
}

Status FollowedDatabase::CatchUp(const FollowedPublication& current, FollowedPublicationRef* newest,
                                 bool* elsewhere) {
  constexpr int kAttemptsMax = 10;
  Status status;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    uint64_t number;
    DLSM_RETURN_IF_ERROR(ReadNumber(&number));
    if (number == current.number) return Status::OK();
    if (number < current.number) {
      return Status::IOError("database " + context_.name + " is another one than before",
                             "open the follower again");
    }
    Publication read;
    status = ReadImage(number, &read);
    if (status.IsBusy()) continue;
    if (status.IsNotFound()) return Status::OK();  // Another owner, which has yet to publish.
    DLSM_RETURN_IF_ERROR(status);
    *elsewhere = !Covers(read);
    return *elsewhere ? Status::OK() : OpenPublication(read, &current, newest);
  }
  return status;
}

Status FollowedDatabase::CheckManifest(const Manifest& manifest, size_t shard,
                                       size_t shards) const {
  DLSM_RETURN_IF_ERROR(
      manifest.CheckNames(context_.options->comparator->Name(), context_.objects->FilterName()));
  // With other boundaries, keys that another compute node has would be looked for here in vain.
  if (shard == 0) {
    DLSM_RETURN_IF_ERROR(
        CheckSameBoundaries(manifest.compute_boundaries, context_.options->compute_boundaries));
  }
  if (manifest.shard != shard || manifest.divided() != (shards > 1) ||
      (shard == 0 && manifest.divided() && manifest.shards.count() != shards)) {
    return Status::Corruption("malformed publication", "a shard is another one's");
  }
  return Status::OK();
}

// Tables that `before` has as well are taken from it; the others are opened together.
Status FollowedDatabase::OpenPublication(const Publication& publication,
                                         const FollowedPublication* before,
                                         FollowedPublicationRef* opened) {
  std::map<TableKey, TableRef> tables;
  if (before != nullptr) {
    for (size_t shard = 0; shard < before->views.size(); ++shard) {
      for (const Level& level : before->views[shard]->version->levels()) {
        for (const TableRef& table : level.AllTables()) {
          tables.emplace(KeyOf(shard, table->meta()), table);
        }
      }
    }
  }
  const size_t shards = publication.manifests.size();
  std::vector<TableMeta> missing;
  std::vector<TableKey> missing_keys;
  const auto decode = [&](size_t shard, const TableOpener& open, Manifest* manifest,
                          std::vector<Level>* levels) {
    return ManifestCodec::Decode(publication.manifests[shard], open, manifest, levels);
  };
  ShardMap map;
  for (size_t shard = 0; shard < shards; ++shard) {
    Manifest manifest;
    std::vector<Level> without_tables;
    DLSM_RETURN_IF_ERROR(decode(
        shard,
        [&](const TableMeta& meta, TableRef* table) {
          *table = nullptr;
          if (tables.contains(KeyOf(shard, meta))) return Status::OK();
          missing.push_back(meta);
          missing_keys.push_back(KeyOf(shard, meta));
          return Status::OK();
        },
        &manifest, &without_tables));
    DLSM_RETURN_IF_ERROR(CheckManifest(manifest, shard, shards));
    if (shard == 0) map = std::move(manifest.shards);
  }
  if (map.nodes.empty()) map.nodes.push_back(nodes_.front()->link().node());
  DLSM_RETURN_IF_ERROR(map.CheckOrder(*context_.options->comparator));
  std::vector<TableRef> added;
  DLSM_RETURN_IF_ERROR(tables_.OpenAll(missing, Purpose::kPublication, &added));
  for (size_t i = 0; i < added.size(); ++i) tables.emplace(missing_keys[i], added[i]);

  const auto made = std::make_shared<FollowedPublication>(shared_from_this());
  for (size_t shard = 0; shard < shards; ++shard) {
    Manifest manifest;
    std::vector<Level> levels;
    DLSM_RETURN_IF_ERROR(decode(
        shard,
        [&](const TableMeta& meta, TableRef* table) {
          *table = tables.at(KeyOf(shard, meta));
          return Status::OK();
        },
        &manifest, &levels));
    if (levels.empty()) return Status::Corruption("malformed publication", "a shard has no level");
    DLSM_RETURN_IF_ERROR(
        RangeTombstones::CheckFragments(*context_.options->comparator, manifest.tombstones));
    std::shared_ptr<const RangeTombstones> tombstones;
    if (!manifest.tombstones.empty()) {
      tombstones = std::make_shared<const RangeTombstones>(context_.comparator,
                                                           std::move(manifest.tombstones));
    }
    const auto version = std::make_shared<const Version>(context_.comparator, std::move(levels),
                                                         std::move(tombstones));
    DLSM_RETURN_IF_ERROR(version->CheckInvariants());
    const auto view = std::make_shared<ReadView>();
    view->active = no_memtable_;
    view->version = version;
    made->views.push_back(view);
  }
  made->sequence = publication.sequence;
  made->map = std::move(map);
  BeginUse(publication.number);
  made->number = publication.number;  // It ends the use that has begun.
  *opened = made;
  return Status::OK();
}

void FollowedDatabase::BeginUse(uint64_t number) {
  port::MutexLock lock(mutex_);
  in_use_.insert(number);
}

void FollowedDatabase::EndUse(uint64_t number) {
  port::MutexLock lock(mutex_);
  in_use_.erase(in_use_.find(number));
}

uint64_t FollowedDatabase::OldestInUse() const {
  port::MutexLock lock(mutex_);
  return in_use_.empty() ? 0 : *in_use_.begin();
}

size_t FollowedDatabase::publications_in_use() const {
  port::MutexLock lock(mutex_);
  return in_use_.size();
}

Status FollowedDatabase::Check() const {
  for (const auto& node : nodes_) DLSM_RETURN_IF_ERROR(node->lease().Check());
  return Status::OK();
}

std::chrono::nanoseconds FollowedDatabase::lease_left() const {
  auto least = std::chrono::nanoseconds::max();
  for (const auto& node : nodes_) least = std::min(least, node->lease().left());
  return least;
}

std::vector<MemoryNodeLink*> FollowedDatabase::links() const {
  std::vector<MemoryNodeLink*> links;
  for (const auto& node : nodes_) links.push_back(&node->link());
  return links;
}

void FollowedDatabase::Close() {
  for (const auto& node : nodes_) node->Stop(/*close=*/true);
}

}  // namespace dlsm
