#include "table/cached_blocks.h"

#include <utility>

#include "util/coding.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using BlockRef = std::shared_ptr<const BlockPayload>;

class CacheKey {
 public:
  CacheKey(uint64_t id, uint64_t offset) {
    EncodeFixed64(bytes_, id);
    EncodeFixed64(bytes_ + sizeof(id), offset);
  }
  Slice slice() const { return Slice(bytes_, sizeof(bytes_)); }

 private:
  char bytes_[16];
};

void DeleteBlockRef(const Slice&, void* value) { delete static_cast<BlockRef*>(value); }

}  // namespace

BlockRef CachedBlocks::Lookup(uint64_t offset) const {
  if (cache_ == nullptr) return nullptr;
  Cache::Handle* const handle = cache_->Lookup(CacheKey(id_, offset).slice());
  if (handle == nullptr) return nullptr;
  BlockRef block = *static_cast<BlockRef*>(cache_->Value(handle));
  cache_->Release(handle);
  return block;
}

Status CachedBlocks::Open(uint64_t offset, const Slice& stored, const TableReadOptions& options,
                          BlockRef* block) const {
  auto opened = std::make_shared<BlockPayload>();
  if (cache_ != nullptr && options.fill_cache) {
    const Status status = opened->OpenCopy(stored);
    if (status.ok()) {
      Insert(offset, opened);
      *block = std::move(opened);
      return status;
    }
    if (options.verify_checksums) return status;
  }
  DLSM_RETURN_IF_ERROR(opened->Open(stored, options.verify_checksums));
  *block = std::move(opened);
  return Status::OK();
}

void CachedBlocks::Insert(uint64_t offset, BlockRef block) const {
  const size_t charge = block->bytes().size() + sizeof(BlockPayload);
  auto value = std::make_unique<BlockRef>(std::move(block));
  cache_->Release(
      cache_->Insert(CacheKey(id_, offset).slice(), value.release(), charge, DeleteBlockRef));
}

}  // namespace dlsm
