/* TEST ONLY: compares csrc/vulkan.h with the headers of libvulkan-dev. */
#include <vulkan/vulkan.h>
#include <vulkan/vk_layer.h>
#include <stddef.h>
#include "vulkan.h"
#define S(a,b) _Static_assert(sizeof(a)==sizeof(b), #a)
S(Application,VkApplicationInfo);S(InstanceInfo,VkInstanceCreateInfo);S(Properties,VkPhysicalDeviceProperties);S(Properties2,VkPhysicalDeviceProperties2);
S(IDProperties,VkPhysicalDeviceIDProperties);S(DriverProperties,VkPhysicalDeviceDriverProperties);S(QueueFamily,VkQueueFamilyProperties);
S(QueueInfo,VkDeviceQueueCreateInfo);S(DeviceInfo,VkDeviceCreateInfo);S(Memory,VkPhysicalDeviceMemoryProperties);S(Requirements,VkMemoryRequirements);
S(MemoryInfo,VkMemoryAllocateInfo);S(BufferInfo,VkBufferCreateInfo);S(ModuleInfo,VkShaderModuleCreateInfo);S(Stage,VkPipelineShaderStageCreateInfo);
S(PipelineInfo,VkComputePipelineCreateInfo);S(Binding,VkDescriptorSetLayoutBinding);S(SetLayoutInfo,VkDescriptorSetLayoutCreateInfo);
S(LayoutInfo,VkPipelineLayoutCreateInfo);S(PoolSize,VkDescriptorPoolSize);S(DescriptorPoolInfo,VkDescriptorPoolCreateInfo);
S(SetInfo,VkDescriptorSetAllocateInfo);S(BufferPart,VkDescriptorBufferInfo);S(Write,VkWriteDescriptorSet);S(CommandPoolInfo,VkCommandPoolCreateInfo);
S(CommandBufferInfo,VkCommandBufferAllocateInfo);S(BeginInfo,VkCommandBufferBeginInfo);S(Submit,VkSubmitInfo);S(BufferSubmit,VkCommandBufferSubmitInfo);
S(Submit2,VkSubmitInfo2);S(FenceInfo,VkFenceCreateInfo);S(QueryPoolInfo,VkQueryPoolCreateInfo);S(NameInfo,VkDebugUtilsObjectNameInfoEXT);
S(Link,VkLayerInstanceLink);S(Negotiate,VkNegotiateLayerInterface);
#define O(a,f,b,g) _Static_assert(offsetof(a,f)==offsetof(b,g), #a "." #f)
O(Properties,limits,VkPhysicalDeviceProperties,limits);O(Properties,name,VkPhysicalDeviceProperties,deviceName);
_Static_assert(296+TIMESTAMPS_AT==offsetof(VkPhysicalDeviceProperties,limits.timestampComputeAndGraphics),"");
_Static_assert(296+TIMESTAMP_PERIOD_AT==offsetof(VkPhysicalDeviceProperties,limits.timestampPeriod),"");
O(LayerLink,link,VkLayerInstanceCreateInfo,u);O(Submit2,buffers,VkSubmitInfo2,pCommandBufferInfos);O(NameInfo,name,VkDebugUtilsObjectNameInfoEXT,pObjectName);
#define E(a,b) _Static_assert((int)a==(int)b,#b)
E(S_PROPERTIES_2,VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);E(S_ID_PROPERTIES,VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
E(S_DRIVER_PROPERTIES,VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);E(S_LOADER_INSTANCE,VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);E(S_LOADER_DEVICE,VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
E(S_BEGIN,VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);E(S_COMMAND_BUFFER,VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);E(S_COMMAND_POOL,VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
E(S_WRITE_SET,VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);E(S_DESCRIPTOR_SET,VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);E(S_DESCRIPTOR_POOL,VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
E(S_SET_LAYOUT,VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);E(S_PIPELINE_LAYOUT,VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);E(S_COMPUTE_PIPELINE,VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
E(S_STAGE,VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);E(S_SHADER_MODULE,VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);E(S_BUFFER,VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
E(S_QUERY_POOL,VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO);E(S_FENCE,VK_STRUCTURE_TYPE_FENCE_CREATE_INFO);E(S_MEMORY,VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);E(S_SUBMIT,VK_STRUCTURE_TYPE_SUBMIT_INFO);
E(S_DEVICE,VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);E(S_QUEUE,VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);E(STORAGE_BUFFER,VK_DESCRIPTOR_TYPE_STORAGE_BUFFER);E(OBJECT_PIPELINE,VK_OBJECT_TYPE_PIPELINE);
