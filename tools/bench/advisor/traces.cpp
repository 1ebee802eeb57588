// What decisions cost. A trace is a network's layers over epochs, each with a share of zeros. In each epoch
// every layer's tensor is made and every codec really run on it; then an advisor for each link and schedule
// decides many times, as a training run would, is charged what its choice was measured to take (and the time
// that sampling took), and learns from single runs, which vary. The oracle takes the best of all candidates
// for every tensor, by the measured medians.
#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string>

#include "tools/bench/activations/activations.h"
#include "tools/bench/advisor/parts.h"
#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

using namespace compression;  // NOLINT: this measures it

constexpr int repetitions = 5;
constexpr int decisions_per_epoch = 100;
constexpr double hidden_share = 0.6;  // overlapped: what compute hides of a raw transfer
constexpr double chi = 0.5;

struct Trace {
  std::string name;
  ElementType element;
  bool dense;                               // both signs, no zeros
  std::vector<std::vector<double>> epochs;  // shares of zeros, by layer
};

std::vector<double> layers_of(std::string_view network) {
  for (const NetworkProfile& profile : network_profiles())
    if (profile.name == network) return {profile.sparsity.begin(), profile.sparsity.end()};
  return {};
}

// AlexNet while it is trained: every epoch while it changes fast, then every eighth.
std::vector<std::vector<double>> alexnet_training() {
  std::vector<std::vector<double>> epochs;
  for (int epoch = 1; epoch <= alexnet_epochs; epoch += epoch < 12 ? 1 : 8) {
    epochs.emplace_back();
    for (int layer = 0; layer < alexnet_layers; ++layer)
      epochs.back().push_back(alexnet_sparsity(layer, epoch));
  }
  return epochs;
}

std::vector<Trace> all_traces() {
  const auto steady = [](std::string_view network) { return std::vector(4, layers_of(network)); };
  return {{"alexnet, training", ElementType::f32, false, alexnet_training()},
          {"alexnet", ElementType::f32, false, steady("alexnet")},
          {"mobilenet_v2", ElementType::f32, false, steady("mobilenet_v2")},
          {"mobilenet_v2, bf16", ElementType::bf16, false, steady("mobilenet_v2")},
          {"vdnn++ alexnet", ElementType::f32, false, steady("vdnn_alexnet")},
          {"vdnn++ vgg", ElementType::f32, false, steady("vdnn_vgg")},
          {"dense transformer", ElementType::f32, true, std::vector(4, std::vector<double>(12, 0))},
          {"dense transformer, bf16", ElementType::bf16, true, std::vector(4, std::vector<double>(12, 0))}};
}

// One layer's tensor in one epoch: its content and what each codec did with it.
struct LayerState {
  std::unique_ptr<Pages> content;
  std::map<Codec, CodecRun> runs;
};

void make(LayerState& layer, const Trace& trace, double sparsity, std::size_t bytes, std::uint64_t seed) {
  if (layer.content == nullptr) layer.content = std::make_unique<Pages>(bytes);
  ActivationSpec spec = trace.dense ? dense_activations(trace.element, seed) : ActivationSpec{};
  spec.element = trace.element;
  spec.seed = seed;
  if (!trace.dense) spec.sparsity = sparsity;
  spec.height = spec.width = 56;
  generate_activations(spec, layer.content->span());
}

// Codecs take turns, so that a busy moment of the machine meets all of them.
void run_codecs(LayerState& layer, ElementType element, CodecRunner& runner) {
  layer.runs.clear();
  for (int i = 0; i < repetitions; ++i)
    for (const Codec codec : predictable_codecs)
      if (codec != Codec::raw) layer.runs[codec].add(runner.run(codec, element, layer.content->span(), 1));
}

struct Policy {
  Link link;
  std::unique_ptr<Advisor> advisor = std::make_unique<Advisor>();
  std::vector<History> histories;
};

// One link and schedule: an advisor at work, and what all the alternatives would have taken.
class Simulation {
 public:
  Simulation(const FixedLink& link, Schedule schedule, std::size_t layers)
      : link_(link), schedule_(schedule) {
    policy_.histories.resize(layers);
  }

  Decision decide(std::size_t layer, const LayerState& state, ElementType element) {
    const auto content = state.content->span();
    const Transfer transfer = transfer_for(content.size());
    const double start = thread_ns();
    const Decision decision = policy_.advisor->decide(
        policy_.histories[layer], {element, content.size(), content}, transfer, policy_.link);
    sampling_ns_ += decision.sampled ? thread_ns() - start : 0;
    charge(decision, state, transfer, content.size());
    learn(policy_.histories[layer], decision, state, content.size());
    return decision;
  }

  double regret() const { return (advised_ns_ + sampling_ns_) / oracle_ns_ - 1; }
  double against_raw() const { return (advised_ns_ + sampling_ns_) / fixed_ns_.at(Codec::raw) - 1; }
  double sampling() const { return sampling_ns_ / advised_ns_; }
  double raw_against_oracle() const { return fixed_ns_.at(Codec::raw) / oracle_ns_ - 1; }
  std::pair<Codec, double> best_fixed() const {
    const auto best = std::min_element(fixed_ns_.begin(), fixed_ns_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return {best->first, best->second / oracle_ns_ - 1};
  }
  const FixedLink& link() const { return link_; }
  Schedule schedule() const { return schedule_; }

 private:
  Transfer transfer_for(std::size_t bytes) const {
    return {.schedule = schedule_,
            .round_trip = true,
            .chunks = 8,
            .hidden_out_ns = hidden_share * link_.out_ns(static_cast<double>(bytes)),
            .hidden_in_ns = hidden_share * link_.in_ns(static_cast<double>(bytes)),
            .chi = chi};
  }

  Times measured(Codec codec, const LayerState& state, std::size_t bytes) const {
    if (codec == Codec::raw) {
      const auto raw = static_cast<double>(bytes);
      return {0, link_.out_ns(raw), link_.in_ns(raw), 0};
    }
    const CodecRun& run = state.runs.at(codec);
    const auto moved = static_cast<double>(run.frame_bytes);
    return {run.compress_ns, link_.out_ns(moved), link_.in_ns(moved), run.decompress_ns};
  }

  void charge(const Decision& decision, const LayerState& state, const Transfer& transfer,
              std::size_t bytes) {
    double best = 1e300;
    for (const Codec codec : predictable_codecs) {
      const double ns = cost_ns(transfer, measured(codec, state, bytes));
      fixed_ns_[codec] += ns;
      best = std::min(best, ns);
      if (codec == decision.codec) advised_ns_ += ns;
    }
    oracle_ns_ += best;
  }

  void learn(History& history, const Decision& decision, const LayerState& state, std::size_t bytes) {
    const Times times = measured(decision.codec, state, bytes);
    std::uint64_t moved = bytes;
    if (decision.codec != Codec::raw) {
      const CodecRun& run = state.runs.at(decision.codec);
      const std::size_t one = random_() % run.compress_each_ns.size();
      moved = run.frame_bytes;
      policy_.advisor->compressed(history, decision, moved, run.compress_each_ns[one]);
      policy_.advisor->decompressed(decision.codec, decision.element, bytes, moved,
                                    run.decompress_each_ns[one]);
    }
    policy_.link.out.observe({moved, 1}, times.out_ns);
    policy_.link.in.observe({moved, 1}, times.in_ns);
  }

  FixedLink link_;
  Schedule schedule_;
  Policy policy_;
  std::mt19937 random_{1};
  std::map<Codec, double> fixed_ns_;
  double advised_ns_ = 0, sampling_ns_ = 0, oracle_ns_ = 0;
};

const char* name_of_schedule(Schedule schedule) {
  switch (schedule) {
    case Schedule::serial:
      return "serial";
    case Schedule::pipelined:
      return "pipelined";
    case Schedule::overlapped:
      break;
  }
  return "overlapped";
}

std::vector<Simulation> simulations_for(const std::vector<FixedLink>& links, std::size_t layers) {
  std::vector<Simulation> simulations;
  for (const FixedLink& link : links)
    for (const Schedule schedule : {Schedule::serial, Schedule::pipelined, Schedule::overlapped})
      simulations.emplace_back(link, schedule, layers);
  return simulations;
}

nlohmann::json report_one(const Simulation& simulation) {
  const auto [best, best_regret] = simulation.best_fixed();
  std::printf("  %-12s %-10s  %6.2f%%   %+7.1f%%   %8.1f%%   %-8s %5.1f%%   %6.3f%%\n",
              simulation.link().name.c_str(), name_of_schedule(simulation.schedule()),
              100 * simulation.regret(), 100 * simulation.against_raw(),
              100 * simulation.raw_against_oracle(), std::string(name_of(best)).c_str(), 100 * best_regret,
              100 * simulation.sampling());
  return {{"link", simulation.link().name},
          {"schedule", name_of_schedule(simulation.schedule())},
          {"regret", simulation.regret()},
          {"against_raw", simulation.against_raw()},
          {"raw_regret", simulation.raw_against_oracle()},
          {"best_fixed", name_of(best)},
          {"best_fixed_regret", best_regret},
          {"sampling_share", simulation.sampling()}};
}

void explain_layers(Simulation& simulation, const std::vector<LayerState>& layers, const Trace& trace) {
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    std::printf("\n  %s, layer %zu, link %s, %s\n", trace.name.c_str(), layer + 1,
                simulation.link().name.c_str(), name_of_schedule(simulation.schedule()));
    print_decision(simulation.decide(layer, layers[layer], trace.element));
  }
}

nlohmann::json run_trace(const Trace& trace, const std::vector<FixedLink>& links, CodecRunner& runner,
                         std::size_t bytes, bool explain) {
  std::vector<LayerState> layers(trace.epochs.front().size());
  std::vector<Simulation> simulations = simulations_for(links, layers.size());
  for (std::size_t epoch = 0; epoch < trace.epochs.size(); ++epoch) {
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      make(layers[layer], trace, trace.epochs[epoch][layer], bytes, 1000 * epoch + layer);
      run_codecs(layers[layer], trace.element, runner);
    }
    for (Simulation& simulation : simulations)
      for (int i = 0; i < decisions_per_epoch; ++i)
        for (std::size_t layer = 0; layer < layers.size(); ++layer)
          simulation.decide(layer, layers[layer], trace.element);
  }
  std::printf("\n%s: %zu layers, %zu epochs\n", trace.name.c_str(), layers.size(), trace.epochs.size());
  std::printf("  link         schedule    regret   to raw   raw's regret   best fixed       sampling\n");
  nlohmann::json rows = nlohmann::json::array();
  for (const Simulation& simulation : simulations) rows.push_back(report_one(simulation));
  if (explain) explain_layers(simulations.front(), layers, trace);
  return rows;
}

}  // namespace

void print_decision(const Decision& decision) {
  std::printf("  sparsity %.1f%% +- %.1f: %s, because %s\n", 100 * decision.sparsity,
              100 * decision.standard_error, std::string(name_of(decision.codec)).c_str(),
              describe(decision.reason));
  std::printf(
      "    codec     fraction   compress us   out us   in us   decompress us   total us   observed\n");
  for (const Candidate& one : decision.candidates)
    std::printf("  %c %-8s   %6.3f     %9.0f   %6.0f  %6.0f       %9.0f  %9.0f   %8u\n",
                one.codec == decision.codec ? '>' : ' ', std::string(name_of(one.codec)).c_str(),
                one.fraction, one.times.compress_ns / 1e3, one.times.out_ns / 1e3, one.times.in_ns / 1e3,
                one.times.decompress_ns / 1e3, one.total_ns / 1e3, one.observed);
}

nlohmann::json measure_regret(const std::vector<FixedLink>& links, std::size_t tensor_bytes, bool explain) {
  CodecRunner runner(tensor_bytes);
  nlohmann::json report;
  for (const Trace& trace : all_traces())
    report[trace.name] = run_trace(trace, links, runner, tensor_bytes, explain);
  return report;
}

}  // namespace terrace::bench
