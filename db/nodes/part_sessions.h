// How a handle becomes the owner of all parts of a database. Each part has an ownership word of its
// own, but the first shard's decides: it is taken first, so whose swap of it is the last one is the
// owner of the database. Who is held up behind it may meet, at another part, one that has taken the
// database over meanwhile, and must not fence that one. So of another part
//
//   1. the memory node offers a word for the one that is there;
//   2. the first shard's memory node says that we still own that. Who takes it over from now on is
//      offered a word for the part later than we were;
//   3. the words are swapped, which fails if a successor has swapped them since.
//
// And so who takes the first shard over may find that a former owner was at 3, and has come before:
// then another word is offered, and the former owner is fenced.
#pragma once

#include <memory>
#include <string>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/nodes/memory_node_link.h"
#include "db/nodes/memory_node_session.h"
#include "db/nodes/session_keeper.h"

namespace dlsm {

// Of the first shard; the database has its name. `link` outlives the session.
Status OpenFirstShard(const Options& options, const std::string& name, MemoryNodeLink* link,
                      SessionKeeper* keeper, std::unique_ptr<MemoryNodeSession>* session);

// Of another part; `first` is what OpenFirstShard() has given. IOFenced if that has been taken over
// since: the successor keeps what it has.
Status OpenPart(const Options& options, const std::string& name, MemoryNodeLink* link,
                const MemoryNodeSession& first, SessionKeeper* keeper,
                std::unique_ptr<MemoryNodeSession>* session);

}  // namespace dlsm
