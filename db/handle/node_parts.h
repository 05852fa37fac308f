// What memory nodes have of a database besides its first shard, which alone makes it exist: other
// shards, and tables of shards.
//
// Where the first shard is not, such parts are left over from an attempt to make the database, or
// to destroy it, that was cut short; or they are those of a database whose first shard is at
// another memory node, because the memory nodes are named in another order, or not all of them. The
// former never name tables: tables come after the first shard, and go before it. And their shards
// have one manifest at most: a second one is put when the first shard has its own, before anybody
// has the database open (DbImpl::StartShards). So parts that do, or have, are in use by somebody,
// or were, until the first shard was lost with its memory node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/nodes/memory_node_link.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

struct NodePart {
  std::string name;  // At its memory node.
  // The one of that name that was seen there; 0: whichever there is.
  DatabaseIncarnation incarnation{};
};

// At one memory node.
struct NodeParts {
  std::optional<DatabaseIncarnation> first_shard;
  std::vector<NodePart> others;
};

Status ListParts(const Options& options, const std::string& database, RpcClient* rpc,
                 NodeParts* parts);

// The names of those of `parts`, at memory node `node`, that are in use. Each is opened to find
// out, over a connection of its own; what has gone by then is not. `waits`: for the end of a lease,
// as Open() does; else TimedOut.
Status FindPartsInUse(const Options& options, const std::vector<NodePart>& parts,
                      const std::string& node, std::vector<std::string>* in_use, bool waits);

// Whether a database that is not at its home may be made there: the parts that are destroyed then
// belong to no other one. `used`: the memory nodes that it is going to have parts at, the home
// first; `named`: all that the options name. InvalidArgument if they do, with the remedy.
Status CheckNoOther(const Options& options, const std::string& database,
                    const std::vector<MemoryNodeLink*>& used,
                    const std::vector<std::string>& named);

// Destroys such a part, or finds none. InvalidArgument if somebody has come to use it since: who
// makes a database may be held up, lose it to another, and not know it yet; and who destroys one
// may find an unused part of another one of its name. And if it is another part than was seen.
Status DestroyLeftover(const Options& options, const NodePart& part, RpcClient* rpc);

// The same as CheckNoOther() for one that has all of its parts at its home, where there is nothing
// to be destroyed; but there would be two databases of one name if another of the memory nodes has
// it. Those that do not answer soon are not waited for: they get nothing of it.
Status CheckNoNamesake(const Options& options, const std::string& database,
                       const MemoryNodeLink& home, const std::vector<std::string>& named);

// InvalidArgument for who looked for the first shard at another memory node than `node`.
Status FirstShardIsAt(const std::string& database, const std::string& node);

}  // namespace dlsm
