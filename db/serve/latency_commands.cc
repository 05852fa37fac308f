// LATENCY: what took long, and how long commands take.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "db/serve/command.h"

namespace dlsm::serve {
namespace {

using Event = LatencyMonitor::Event;

void Latest(Call& call) {
  const std::map<std::string, Event> events = call.server.latency_monitor.All();
  call.reply.Array(events.size());
  for (const auto& [name, event] : events) {
    call.reply.Array(4);
    call.reply.Bulk(name);
    call.reply.Integer(event.samples.back().at);
    call.reply.Integer(event.samples.back().millis);
    call.reply.Integer(event.most_millis);
  }
}

Event FindEvent(const Call& call, const Slice& name) {
  return call.server.latency_monitor.All()[name.ToString()];
}

void History(Call& call) {
  const Event event = FindEvent(call, call[2]);
  call.reply.Array(event.samples.size());
  for (const LatencyMonitor::Sample& sample : event.samples) {
    call.reply.Array(2);
    call.reply.Integer(sample.at);
    call.reply.Integer(sample.millis);
  }
}

void ResetEvents(Call& call) {
  int64_t forgotten = 0;
  if (call.count() == 2) {
    forgotten = static_cast<int64_t>(call.server.latency_monitor.ForgetAll());
  }
  for (size_t i = 2; i < call.count(); ++i) {
    forgotten += call.server.latency_monitor.Forget(call[i].ToString()) ? 1 : 0;
  }
  call.reply.Integer(forgotten);
}

// A line for each sample, with a bar: the longest has the longest bar.
void Graph(Call& call) {
  constexpr int64_t kBarMost = 50;
  const Event event = FindEvent(call, call[2]);
  if (event.samples.empty()) {
    return call.reply.Error(
        fmt::format("ERR No samples available for event '{}'", call[2].ToStringView()));
  }
  int64_t most = 1;
  for (const LatencyMonitor::Sample& sample : event.samples) most = std::max(most, sample.millis);
  std::string text = fmt::format("{} - high {} ms, all time high {} ms\n", call[2].ToStringView(),
                                 most, event.most_millis);
  for (const LatencyMonitor::Sample& sample : event.samples) {
    const auto bar = static_cast<size_t>(std::max<int64_t>(1, sample.millis * kBarMost / most));
    text += fmt::format("{:>6} s ago {:>8} ms {}\n", call.round.now() / 1000 - sample.at,
                        sample.millis, std::string(bar, '#'));
  }
  call.reply.Verbatim(text);
}

void Doctor(Call& call) {
  const int64_t threshold = call.server.latency_monitor.threshold();
  const std::map<std::string, Event> events = call.server.latency_monitor.All();
  std::string text;
  if (threshold == 0) {
    text = "Nothing is watched: CONFIG SET latency-monitor-threshold <milliseconds> begins that.\n";
  } else if (events.empty()) {
    text = fmt::format("Nothing has taken {} ms or longer.\n", threshold);
  }
  for (const auto& [name, event] : events) {
    int64_t sum = 0;
    for (const LatencyMonitor::Sample& sample : event.samples) sum += sample.millis;
    text += fmt::format(
        "{}: {} seconds had one of {} ms or longer; their mean is {} ms, the worst "
        "{} ms.\n",
        name, event.samples.size(), threshold, sum / static_cast<int64_t>(event.samples.size()),
        event.most_millis);
  }
  if (events.contains("command")) {
    text += "command: SLOWLOG GET names the slow ones; those that go through all keys are such.\n";
  }
  if (events.contains("commit")) {
    text += "commit: the database made writes wait; DLSM.PROPERTY dlsm.stalls tells what for.\n";
  }
  call.reply.Verbatim(text);
}

// Buckets as upper bounds in microseconds, with how many calls did not take longer.
void DescribeHistogram(const CommandLatency::Histogram& histogram, Reply* reply) {
  std::vector<std::pair<uint64_t, uint64_t>> steps;
  uint64_t so_far = 0;
  for (size_t bucket = 0; bucket < CommandLatency::kBuckets; ++bucket) {
    if (histogram.buckets[bucket] == 0) continue;
    so_far += histogram.buckets[bucket];
    steps.emplace_back(CommandLatency::BucketEndMicros(bucket), so_far);
  }
  reply->Map(2);
  reply->Bulk("calls");
  reply->Integer(static_cast<int64_t>(histogram.calls));
  reply->Bulk("histogram_usec");
  reply->Map(steps.size());
  for (const auto& [micros, calls] : steps) {
    reply->Integer(static_cast<int64_t>(micros));
    reply->Integer(static_cast<int64_t>(calls));
  }
}

void Histograms(Call& call) {
  std::vector<const Command*> commands;
  if (call.count() == 2) commands = AllCommands();
  for (size_t i = 2; i < call.count(); ++i) {
    const Command* const command = FindCommand(call[i]);
    if (command != nullptr) commands.push_back(command);
  }
  std::vector<std::pair<const char*, CommandLatency::Histogram>> called;
  for (const Command* command : commands) {
    const CommandLatency::Histogram histogram = call.server.command_latency.Of(command->number);
    if (histogram.calls > 0) called.emplace_back(command->name, histogram);
  }
  call.reply.Map(called.size());
  for (const auto& [name, histogram] : called) {
    call.reply.Bulk(name);
    DescribeHistogram(histogram, &call.reply);
  }
}

void Help(Call& call) {
  static const std::vector<const char*> kLines = {
      "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "DOCTOR",
      "    What has taken long, in words.",
      "GRAPH <event>",
      "    The samples of a kind of event, as bars.",
      "HISTOGRAM [COMMAND ...]",
      "    How many calls of these commands, or of all, took how long.",
      "HISTORY <event>",
      "    The samples of a kind of event.",
      "LATEST",
      "    The last sample of each kind.",
      "RESET [<event> ...]",
      "    Forgets the samples of these kinds of events, or of all.",
      "HELP",
      "    This text."};
  call.reply.Array(kLines.size());
  for (const char* line : kLines) call.reply.Simple(line);
}

void LatencyCommand(Call& call) {
  constexpr size_t kAny = Subcommand::kAny;
  static const std::vector<Subcommand> kSubcommands = {
      {"latest", Latest, 2, 2}, {"history", History, 3, 3}, {"reset", ResetEvents, 2, kAny},
      {"graph", Graph, 3, 3},   {"doctor", Doctor, 2, 2},   {"histogram", Histograms, 2, kAny},
      {"help", Help, 2, 2},
  };
  RunSubcommand(call, kSubcommands);
}

}  // namespace

const std::vector<Command> kLatencyCommands = {
    {"latency", LatencyCommand, -2, kAdmin, 0, 0, 0},
};

}  // namespace dlsm::serve
