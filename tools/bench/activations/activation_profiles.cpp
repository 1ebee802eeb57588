// Sparsities of published networks, for generating whole sets of activations. Sources: the charts in the
// notebooks of EBPC (Cavigelli, Rutishauser, Benini 2019; inference with pretrained torchvision networks on
// ImageNet) and the densities that the prototype of vDNN++ (Shriram, Garg, Kulkarni, IPDPS 2019) was measured
// with.
#include <algorithm>
#include <cmath>

#include "tools/bench/activations/activations.h"

namespace terrace::bench {
namespace {

constexpr float alexnet[] = {.60F, .81F, .83F, .81F, .88F, .72F, .85F};
constexpr float mobilenet_v2[] = {.36F, .29F, .25F, .33F, .25F, .41F, .40F, .28F, .21F, .52F, .28F, .57F,
                                  .38F, .18F, .21F, .52F, .32F, .51F, .42F, .53F, .33F, .39F, .48F, .55F,
                                  .51F, .54F, .63F, .20F, .37F, .52F, .45F, .51F, .72F, .08F, .58F};
constexpr float vdnn_alexnet[] = {.50F, .20F, .60F, .40F, .30F, .30F, .70F, .40F};
constexpr float vdnn_vgg[] = {.50F, .80F, .70F, .80F, .70F, .80F, .80F, .80F, .90F,
                              .80F, .80F, .90F, .90F, .90F, .80F, .80F, .90F, .85F};
// AlexNet, VGG-16, ResNet-34, SqueezeNet, MobileNetV2: averages that EBPC's ratios of ZVC imply.
constexpr float ebpc_averages[] = {.73F, .60F, .43F, .47F, .36F};

constexpr NetworkProfile profiles[] = {{"alexnet", alexnet},
                                       {"mobilenet_v2", mobilenet_v2},
                                       {"vdnn_alexnet", vdnn_alexnet},
                                       {"vdnn_vgg", vdnn_vgg},
                                       {"ebpc_averages", ebpc_averages}};

constexpr double first_epoch[alexnet_layers] = {.51, .57, .56, .59, .60, .67, .71};
constexpr double last_epoch[alexnet_layers] = {.37, .43, .66, .67, .63, .79, .86};
// e-folding, in epochs: 92% of the change lies before epoch 11.
constexpr double settling = 4;

}  // namespace

std::span<const NetworkProfile> network_profiles() { return profiles; }

double alexnet_sparsity(int layer, int epoch) {
  const int at = std::clamp(layer, 0, alexnet_layers - 1);
  const double age = std::clamp(epoch, 1, alexnet_epochs) - 1;
  const double whole = 1 - std::exp(-(alexnet_epochs - 1) / settling);
  const double done = (1 - std::exp(-age / settling)) / whole;
  return first_epoch[at] + (last_epoch[at] - first_epoch[at]) * done;
}

}  // namespace terrace::bench
